"""The Django project: settings, URLs, Celery, ASGI, and errors translated once."""

"""Django settings; every deployment difference is an environment variable (see .env.example)."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from celery.schedules import crontab

from config.logs import Format, logging_settings

BASE_DIR = Path(__file__).resolve().parents[2]


def env(name: str, default: str = "") -> str:
    """Return an environment variable, or the default where it is unset or empty."""
    return os.environ.get(name) or default


def env_flag(name: str, *, default: bool) -> bool:
    """Return a yes/no environment variable."""
    return env(name, "1" if default else "0").lower() in {"1", "true", "yes", "on"}


def pool(size: int) -> dict[str, object]:
    """Return the pool's options; without one, each thread keeps a connection of its own."""
    return {"pool": {"min_size": 1, "max_size": size, "timeout": 5}} if size else {}


def database(url: str) -> dict[str, object]:
    """Read a postgresql:// URL into Django's form."""
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
        "OPTIONS": {"connect_timeout": 5, **pool(int(env("TIDEGATE_DB_POOL", "0")))},
        "CONN_HEALTH_CHECKS": True,
        "CONN_MAX_AGE": 0 if int(env("TIDEGATE_DB_POOL", "0")) else 60,
    }


DEBUG = env_flag("TIDEGATE_DEBUG", default=False)
SECRET_KEY = env("TIDEGATE_SECRET_KEY", "insecure-for-tests-and-development-only-never-in-production")
ALLOWED_HOSTS = env("TIDEGATE_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1],testserver").split(",")
CSRF_TRUSTED_ORIGINS = [origin for origin in env("TIDEGATE_TRUSTED_ORIGINS").split(",") if origin]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "django_structlog",
    "lucide",
    "config.apps.ProjectConfig",
    "tenants",
    "queues",
]

MIDDLEWARE = [
    "config.requests.Arrival",
    "django.middleware.security.SecurityMiddleware",
    "config.security.content_security_policy",
    "config.files.static_files",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
AUTH_USER_MODEL = "tenants.User"
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "queues.chrome.chrome",
            ],
        },
    },
]

DATABASE_URL = env("DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/tidegate")
DATABASES = {"default": database(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env("REDIS_URL", "redis://127.0.0.1:6379/0")

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = Path(env("TIDEGATE_STATIC_ROOT", str(BASE_DIR / ".data" / "static")))
STATICFILES_DIRS = [BASE_DIR / "static"]

REST_FRAMEWORK: dict[str, object] = {
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "tenants.rest.authentication.BearerAuthentication",
        "tenants.rest.authentication.BrowserAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": [
        "tenants.rest.parsers.JsonParser",
        "tenants.rest.parsers.YamlParser",
        "tenants.rest.parsers.TextYamlParser",
        "tenants.rest.parsers.OldYamlParser",
    ],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "config.errors.handle",
    "URL_FORMAT_OVERRIDE": None,
}

SPECTACULAR_SETTINGS: dict[str, object] = {
    "TITLE": "Tidegate",
    "DESCRIPTION": "Teams, quotas and jobs. Refusals are application/problem+json; /api/errors explains their kinds.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "PREPROCESSING_HOOKS": ["tenants.rest.schema.only_ours"],
    "POSTPROCESSING_HOOKS": ["tenants.rest.schema.add_problems"],
}

# Bodies are limited per view (tenants.rest.views) and, before they are read, in config.asgi.
DATA_UPLOAD_MAX_MEMORY_SIZE = None

# Whether /metrics needs no token, for a scraper inside the cluster.
TIDEGATE_METRICS_OPEN = env_flag("TIDEGATE_METRICS_OPEN", default=False)

# The log's request id is the answer's; asking for the user there would need the database.
DJANGO_STRUCTLOG_USER_ID_FIELD = ""
DJANGO_STRUCTLOG_TRUST_UPSTREAM_REQUEST_ID = True  # config.requests has made or checked it

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# Kubernetes: NAME=KUBECONFIG pairs, separated by commas; a path alone is the cluster "default".
TIDEGATE_CLUSTERS = env("TIDEGATE_CLUSTERS", env("TIDEGATE_KUBECONFIG"))

# Celery: messages are hints and PostgreSQL is the truth. They carry no results, are acknowledged early, and expire, so
# that what piled up while no worker ran does not run at once. Short time-outs let a worker find out that Redis is gone.
CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 60,
    "socket_connect_timeout": 5,
    "socket_timeout": float(env("TIDEGATE_BROKER_SECONDS", "20")),
    "socket_keepalive": True,
    "health_check_interval": 10,
}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "admission"
# What takes long has a worker of its own: it never stands in the loop's way.
CELERY_TASK_ROUTES = {
    "queues.release": {"queue": "release"},
    "queues.forecast": {"queue": "background"},
    "queues.clean_up": {"queue": "background"},
}
# Acknowledged early, a task is not handed out again while it runs; this ends one that hangs.
CELERY_TASK_TIME_LIMIT = 300
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
TIDEGATE_TICK_SECONDS = float(env("TIDEGATE_TICK_SECONDS", "10"))
CELERY_BEAT_SCHEDULE = {
    "admit": {"task": "queues.admit", "schedule": TIDEGATE_TICK_SECONDS, "options": {"expires": TIDEGATE_TICK_SECONDS}},
    "release": {
        "task": "queues.release",
        "schedule": TIDEGATE_TICK_SECONDS,
        "options": {"expires": TIDEGATE_TICK_SECONDS},
    },
    "forecast": {"task": "queues.forecast", "schedule": 60.0, "options": {"expires": 60.0}},
    # By the clock: an hour that counts from beat's start would never be over where beat is restarted more often.
    "clean-up": {"task": "queues.clean_up", "schedule": crontab(minute="17"), "options": {"expires": 3600.0}},
}

# Jobs may carry annotations tidegate.test/*, by which tests and the demo steer the emulated machines.
TIDEGATE_TEST_ANNOTATIONS = env_flag("TIDEGATE_TEST_ANNOTATIONS", default=False)

# TLS ends at a proxy that says so in X-Forwarded-Proto; probes come without it.
HTTPS = env_flag("TIDEGATE_HTTPS", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_REDIRECT_EXEMPT = [r"^healthz/?$", r"^readyz/?$", r"^metrics/?$"]
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
# Whether sub-domains are Tidegate's, or a browser's preload list is wanted, is the operator's affair.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# How long finished objects stay for their logs, the teams' namespaces, the most requests a process and API server.
TIDEGATE_KEEP_SECONDS = float(env("TIDEGATE_KEEP_SECONDS", "300"))
TIDEGATE_NAMESPACE_PREFIX = env("TIDEGATE_NAMESPACE_PREFIX", "team-")
TIDEGATE_REQUESTS_PER_SECOND = float(env("TIDEGATE_REQUESTS_PER_SECOND", "200"))
TIDEGATE_RELIST_SECONDS = float(env("TIDEGATE_RELIST_SECONDS", "60"))

# One line a log entry on standard error, JSON unless told otherwise; Celery keeps its hands off.
LOGGING = logging_settings(
    level=env("TIDEGATE_LOG_LEVEL", "INFO").upper(), form=Format(env("TIDEGATE_LOG_FORMAT", "json"))
)
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

CSRF_FAILURE_VIEW = "tenants.views.csrf_failed"

# Levels of the topology, outermost first, as node labels; a level is called what stands behind the label's last slash.
TIDEGATE_LEVELS = {
    label.rpartition("/")[2]: label
    for label in env("TIDEGATE_LEVELS", "topology.kubernetes.io/zone,tidegate.io/rack").split(",")
    if label
}

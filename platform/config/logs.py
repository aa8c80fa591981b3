"""How log entries look: one line each with time, level, logger and the request's id, as JSON or as plain words."""

from enum import StrEnum
from typing import Any

import structlog


class Format(StrEnum):
    """JSON for machines that collect logs, plain for people at a terminal."""

    JSON = "json"
    PLAIN = "plain"


SHARED: tuple[structlog.types.Processor, ...] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
)

# A browser that leaves a live page ends its stream: that is no news.
NO_NEWS = frozenset({"streaming_cancelled", "request_cancelled"})


def logging_settings(*, level: str, form: Format) -> dict[str, Any]:
    """Return Django's LOGGING, and let structlog write through it."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            no_news,
            *SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_last(form)],
        "foreign_pre_chain": list(SHARED),
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": formatter},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["console"], "level": level},
        # Django's own handlers would say everything twice; requests are told by django_structlog.
        "loggers": {
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.request": {"handlers": [], "level": "CRITICAL", "propagate": True},
        },
    }


def no_news(_logger: object, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Drop entries that tell nothing."""
    if event.get("event") in NO_NEWS:
        raise structlog.DropEvent
    return event


def _last(form: Format) -> list[structlog.types.Processor]:
    if form is Format.PLAIN:
        return [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]

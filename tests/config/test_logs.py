import json
import logging
import logging.config
from collections.abc import Iterator

import pytest
import structlog

from config.logs import Format, logging_settings, no_news


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Put handlers, levels and structlog's configuration back."""
    root = logging.getLogger()
    handlers, level, config = root.handlers[:], root.level, structlog.get_config()
    yield
    root.handlers[:], root.level = handlers, level
    structlog.configure(**config)


def told(capsys: pytest.CaptureFixture[str], form: Format) -> str:
    """Return what two loggers, ours and structlog's, write at two levels."""
    logging.config.dictConfig(logging_settings(level="WARNING", form=form))
    logging.getLogger("queues.test").info("quiet")
    logging.getLogger("queues.test").warning("%s jobs wait", 3)
    try:
        int("broken")
    except ValueError:
        logging.getLogger("queues.test").exception("a fault")
    return capsys.readouterr().err


def test_an_entry_is_one_line_of_json_with_time_level_and_logger(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in told(capsys, Format.JSON).splitlines()]

    assert [line["event"] for line in lines] == ["3 jobs wait", "a fault"]
    assert lines[0]["level"] == "warning"
    assert lines[0]["logger"] == "queues.test"
    assert lines[0]["timestamp"].endswith("Z")
    assert "ValueError: invalid literal" in lines[1]["exception"]


def test_plain_entries_have_no_colours_and_show_where_a_fault_was(capsys: pytest.CaptureFixture[str]) -> None:
    said = told(capsys, Format.PLAIN)

    assert "3 jobs wait" in said
    assert "ValueError: invalid literal" in said
    assert "\033" not in said


def test_a_browser_that_leaves_a_live_page_is_no_news() -> None:
    with pytest.raises(structlog.DropEvent):
        no_news(None, "warning", {"event": "streaming_cancelled"})
    assert no_news(None, "warning", {"event": "request_failed"}) == {"event": "request_failed"}

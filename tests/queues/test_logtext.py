from datetime import UTC, datetime

import pytest

from queues.logtext import LONGEST_LINE, Lines, Stamp

T0 = "2026-11-29T12:00:00.000000000Z"
T1 = "2026-11-29T12:00:00.000000001Z"
T2 = "2026-11-29T12:00:01.500000000Z"


def texts(lines: Lines, *chunks: bytes) -> list[str]:
    return [line.text for chunk in chunks for line in lines.feed(chunk)]


def stamp(text: str) -> Stamp:
    found = Stamp.read(text)
    assert found is not None
    return found[0]


def test_a_chunk_of_three_lines_and_half_a_character_is_read_rightly() -> None:
    lines = Lines()
    raw = "one\ntwo\nthree\nf\u00fcnf\n".encode()
    cut = raw.index(b"\xbc")

    assert texts(lines, raw[:cut], raw[cut:]) == ["one", "two", "three", "f\u00fcnf"]


def test_what_is_no_text_is_shown_as_such() -> None:
    assert texts(Lines(), b"a\xff\n") == ["a\ufffd"]


def test_the_last_line_needs_no_end() -> None:
    lines = Lines()

    assert texts(lines, b"one\ntw") == ["one"]
    assert [line.text for line in lines.end()] == ["tw"]
    assert lines.end() == []


def test_a_line_without_end_comes_in_pieces_and_is_not_kept_whole() -> None:
    lines = Lines()

    found = texts(lines, b"x" * (3 * LONGEST_LINE + 5))

    assert [len(text) for text in found] == [LONGEST_LINE] * 3
    assert [line.text for line in lines.end()] == ["x" * 5]


def test_times_are_taken_from_lines_and_come_back_where_asked() -> None:
    (line,) = Lines().feed(f"{T2} hello\n".encode())

    assert (line.text, line.at) == ("hello", stamp(T2))
    assert line.render(timestamps=True) == f"{T2} hello"
    assert line.render(timestamps=False) == "hello"


def test_what_was_read_before_is_passed_over_to_the_nanosecond() -> None:
    lines = Lines(after=stamp(T0))

    assert texts(lines, f"{T0} old\n{T1} new\n{T2} newer\n".encode()) == ["new", "newer"]
    assert lines.last == stamp(T2)


def test_the_rest_of_an_old_long_line_is_old_too() -> None:
    lines = Lines(after=stamp(T0))

    assert texts(lines, f"{T0} ".encode() + b"x" * 2 * LONGEST_LINE + b"y\n", f"{T1} new\n".encode()) == ["new"]


@pytest.mark.parametrize(
    ("text", "moment", "nanos"),
    [
        ("2026-11-29T12:00:00Z", datetime(2026, 11, 29, 12, tzinfo=UTC), 0),
        ("2026-11-29T14:00:00.5+02:00", datetime(2026, 11, 29, 12, tzinfo=UTC), 500_000_000),
    ],
)
def test_times_are_read_with_any_fraction_and_zone(text: str, moment: datetime, nanos: int) -> None:
    found = stamp(text)

    assert (found.moment, found.nanos) == (moment, nanos)
    assert stamp(str(found)) == found

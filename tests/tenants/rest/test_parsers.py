import time

import pytest

from tenants.errors import Unreadable
from tenants.rest.parsers import read_json, read_yaml

BOMB = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(ord("b"), ord("k"))
)


def test_yaml_of_more_parts_than_anybody_needs_is_refused_before_it_is_built() -> None:
    many, enough = b"[" + b"1," * 450_000 + b"1]", b"[" + b"1," * 50_000 + b"1]"

    with pytest.raises(Unreadable) as caught:
        read_yaml(many)

    assert caught.value.code == "too_many_parts"
    assert "more than 100,000 keys and values" in caught.value.detail
    assert len(read_yaml(enough)) == 50_001


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "bad_json"),
        (b"{", "bad_json"),
        (b'{"a": NaN}', "bad_json"),
        (b'{"a": 1, "a": 2}', "doubled_key"),
        (b"\xff\xfe", "bad_utf8"),
        (b"[" * 100_000, "too_deep"),
        (b"[" * 33 + b"]" * 33, "too_deep"),
        (b'{"a": "\\u0000"}', "bad_character"),
        (b'{"a": "\\ud800"}', "bad_character"),
        (b'{"\\u0000": 1}', "bad_character"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number_too_long"),
        (b'{"a": 1e999}', "number_too_long"),
    ],
)
def test_odd_json_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(Unreadable) as error:
        read_json(body)

    assert error.value.code == code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (BOMB, "yaml_feature"),
        (b"a: &x 1", "yaml_feature"),
        (b"a: !!python/object/apply:os.system [ls]", "yaml_feature"),
        (b"a: !x 1", "yaml_feature"),
        (b"a: 1\n---\nb: 2", "yaml_feature"),
        (b"a: 1\na: 2", "bad_yaml"),
        (b"? [a]\n: 1", "bad_yaml"),
        (b"a: [", "bad_yaml"),
        (b"a: \x01", "bad_yaml"),
        (b"a: \xff", "bad_utf8"),
        (b"[" * 50_000, "bad_yaml"),
        (b"[" * 50, "too_deep"),
        (b"- " * 40 + b"x", "too_deep"),
        (b"a: " + b"9" * 5000, "number_too_long"),
        (b"a: 1" + b"0" * 400 + b".0", "number_too_long"),
        (b'a: "\\0"', "bad_character"),
    ],
)
def test_odd_yaml_is_refused(body: bytes, code: str) -> None:
    with pytest.raises(Unreadable) as error:
        read_yaml(body)

    assert error.value.code == code


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(Unreadable, match="line 2, column 6"):
        read_json(b'{"a": 1,\n "b" 2}')
    with pytest.raises(Unreadable, match="the key 'a' is there twice at line 2, column 1"):
        read_yaml(b"a: 1\na: 2")


def test_yaml_has_the_types_of_json() -> None:
    body = b"""
text: yes
time: 12:30
day: 2026-11-29
octal: 0o17
padded: 007
quoted: "1"
whole: 12
minus: -3
part: 1.5
flag: true
nothing: null
tilde: ~
empty:
list: [1, a]
map: {a: {b: c}}
<<: plain
"""

    assert read_yaml(body) == {
        "text": "yes",
        "time": "12:30",
        "day": "2026-11-29",
        "octal": "0o17",
        "padded": "007",
        "quoted": "1",
        "whole": 12,
        "minus": -3,
        "part": 1.5,
        "flag": True,
        "nothing": None,
        "tilde": None,
        "empty": None,
        "list": [1, "a"],
        "map": {"a": {"b": "c"}},
        "<<": "plain",
    }


def test_json_keeps_its_values() -> None:
    assert read_json('{"a": [1, -2.5, "ä", null, true]}'.encode()) == {"a": [1, -2.5, "ä", None, True]}


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_a_megabyte_is_read_in_time(read: object) -> None:
    body = b'{"a": [' + b",".join([b'"xxxxxxxxxxxxxxxx"'] * 50_000) + b"]}"
    began = time.process_time()

    value = read(body)  # type: ignore[operator]

    assert len(value["a"]) == 50_000
    assert time.process_time() - began < 10


def test_a_doubled_key_at_the_end_of_a_long_body_is_found_in_time() -> None:
    body = b"{" + b",".join(b'"%d":1' % place for place in range(90_000)) + b',"89999":1}'
    began = time.process_time()

    with pytest.raises(Unreadable, match="'89999' is there twice"):
        read_json(body)

    assert time.process_time() - began < 10

import re
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from clusters import names

LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?")
DNS = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
JOB = "0197a2b0-1111-7000-8000-00000000000a"

places = st.tuples(st.uuids(), st.integers(1, 10**6), st.integers(0, 999))


def test_a_name_tells_job_wave_and_group() -> None:
    assert names.object_name(JOB, 12, 3) == "tg-0197a2b0111170008000000000000" + "00a-12-3"
    assert names.service_name(JOB, 12) == "tg-0197a2b0111170008000000000000" + "00a-12"


@given(places)
def test_a_name_is_a_dns_label_with_room_for_the_completion_index(place: tuple[UUID, int, int]) -> None:
    job, number, group = place

    pod = f"{names.object_name(str(job), number, group)}-99999"

    assert DNS.fullmatch(pod)
    assert len(pod) <= 63


@given(places, places)
def test_different_waves_and_groups_have_different_names(
    one: tuple[UUID, int, int], two: tuple[UUID, int, int]
) -> None:
    same = names.object_name(str(one[0]), *one[1:]) == names.object_name(str(two[0]), *two[1:])

    assert same == (one == two)


@given(st.text(max_size=200), st.integers(1, 10**6), st.integers(0, 999))
def test_a_job_id_of_any_form_gives_a_valid_name(job: str, number: int, group: int) -> None:
    name = names.object_name(job, number, group)

    assert DNS.fullmatch(name)
    assert len(name) <= 57


@given(st.text(max_size=300))
def test_any_text_becomes_a_valid_label_value(text: str) -> None:
    value = names.label_value(text)

    assert LABEL.fullmatch(value)
    assert len(value) <= 63


@given(st.text(max_size=100), st.text(max_size=100))
def test_different_texts_stay_different_as_label_values(one: str, two: str) -> None:
    assert (names.label_value(one) == names.label_value(two)) == (one == two)


@given(st.text(max_size=300), st.integers(-(2**31), 2**31))
def test_any_priority_class_gets_a_valid_name(text: str, value: int) -> None:
    name = names.priority_class_name(text, value)

    assert DNS.fullmatch(name)
    assert len(name) <= 63


def test_what_is_valid_already_is_kept() -> None:
    assert names.label_value("team-a.b_C") == "team-a.b_C"
    assert names.priority_class_name("urgent", 5) == "tidegate-urgent-5"


def test_a_priority_class_with_another_value_has_another_name() -> None:
    assert len({names.priority_class_name("urgent", value) for value in (-5, 0, 5)}) == 3


def test_what_has_to_be_changed_stays_readable() -> None:
    assert names.label_value("Night shift").startswith("Night-shift-")
    assert names.dns_label("Über Team").startswith("ber-team-")

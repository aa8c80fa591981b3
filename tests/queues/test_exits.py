import pytest

from queues.exits import meaning


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (137, "OOMKilled", "Out of memory"),
        (137, "Error", "SIGKILL"),
        (139, "Error", "SIGSEGV"),
        (138, "Error", "SIGUSR1"),
        (127, "Error", "not there"),
        (None, "IMAGE_PULL", "image cannot be pulled"),
    ],
)
def test_how_a_task_ended_is_said_in_words(code: int | None, reason: str, words: str) -> None:
    assert words in meaning(code, reason)


@pytest.mark.parametrize("code", [None, 0, 1, 2, 128, 255, 300])
def test_a_code_that_says_nothing_in_particular_is_not_interpreted(code: int | None) -> None:
    assert meaning(code, "Error") == ""


@pytest.mark.parametrize("reason", ["EVICTED", "SHRUNK"])
def test_of_what_we_stopped_ourselves_nothing_is_guessed(reason: str) -> None:
    assert meaning(143, reason) == ""

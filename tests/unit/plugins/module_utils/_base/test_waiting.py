"""What is waited for is said when it changes, and not each time that somebody looks."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import WaitTimeout
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.waiting import (
    ChangeReporter,
    wait_until,
    wait_until_gone,
)


def test_words_are_said_once_until_they_change() -> None:
    looks = iter([(None, "a"), (None, "a"), (None, "b"), (None, "b"), ("found", "")])
    said: list[str] = []
    assert wait_until(lambda: next(looks), 60, said.append, str.upper, pause=0.0) == "found"
    assert said == ["a", "b"]


def test_after_the_timeout_the_last_words_are_the_error() -> None:
    with pytest.raises(WaitTimeout, match="still A"):
        wait_until(lambda: (None, "a"), 0.0, lambda text: None, lambda words: f"still {words.upper()}")


def test_what_is_found_too_late_is_found_all_the_same() -> None:
    assert wait_until(lambda: (0, ""), 0.0, lambda text: None, str.upper) == 0


def test_a_teller_says_the_same_again_after_a_while() -> None:
    said: list[str] = []
    for again, times in ((1000.0, 1), (0.0, 3)):
        said.clear()
        reporter = ChangeReporter(said.append, again)
        for _look in range(3):
            reporter.report(lambda: "words", ("state", 1))
        assert said == ["words"] * times


def test_what_is_not_deleted_is_named() -> None:
    looks = iter([["Pod b", "Pod a"], ["Pod a"], []])
    wait_until_gone(lambda: next(looks), 60, pause=0.0)
    with pytest.raises(WaitTimeout, match=r"not deleted after 0 s: Pod a, Pod b"):
        wait_until_gone(lambda: ["Pod b", "Pod a"], 0.0)

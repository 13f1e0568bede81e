"""A search that takes for ever is ended; what is quick, and what was set before, stay as they were."""

from __future__ import annotations

import re
import signal
import threading

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.processor_time import limit_processor_time


def test_an_exponential_search_ends_with_what_was_searched() -> None:
    with pytest.raises(InputError, match="searching x took more than 0.1 s"), limit_processor_time(0.1, "searching x"):
        re.fullmatch("(a+)+", "a" * 60 + "!")


def test_the_handler_of_before_is_back_whatever_happens() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(ZeroDivisionError), limit_processor_time(10, "x"):
        _ = 1 / 0
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_in_another_thread_a_block_runs_without_a_limit() -> None:
    results: list[bool] = []

    def search() -> None:
        with limit_processor_time(0.001, "x"):
            results.append(re.fullmatch("a+", "a" * 1000) is not None)

    thread = threading.Thread(target=search)
    thread.start()
    thread.join(10)
    assert results == [True]

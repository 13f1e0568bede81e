# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same work for many items, several at a time."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._threads import Thread

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class ItemOutcome(Generic[T, R]):
    """What came of one item: a value or the error that was raised."""

    item: T
    value: R | None = None
    error: Exception | None = None


def each(items: Iterable[T], work: Callable[[T], R], workers: int = 16) -> list[ItemOutcome[T, R]]:
    """Call ``work`` for every item on up to ``workers`` threads; return the outcomes in the items' order.

    An error stops nothing but its own item. Client is safe for use by many threads, so ``work`` may hold one.
    """
    outcomes = [ItemOutcome[T, R](item) for item in items]
    todo: queue.SimpleQueue[ItemOutcome[T, R] | None] = queue.SimpleQueue()
    for one in outcomes:
        todo.put(one)
    threads = max(1, min(workers, len(outcomes)))
    for _thread in range(threads):
        todo.put(None)

    def serve() -> None:
        while (one := todo.get()) is not None:
            try:
                one.value = work(one.item)
            except Exception as error:  # belongs to the item; the caller looks at it
                one.error = error

    if threads == 1:
        serve()
        return outcomes
    running = [Thread(target=serve, daemon=True) for _thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return outcomes

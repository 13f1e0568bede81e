# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schedule of failures depends on its options and the seed alone; any part of a file shows what is open."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures import failure_schedule
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_ledger import (
    failures_not_undone,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.failures.failure_schedule import (
    KINDS,
    UNDONE_LATER,
    choose_targets,
    schedule_failures,
)
from hypothesis import given
from hypothesis import strategies as st


def entry(kind: str = "node_lost", **options: Any) -> dict[str, Any]:
    defaults = {name: option.get("default") for name, option in failure_schedule.OPTIONS.items()}
    return {**defaults, "kind": kind, **options}


ENTRIES = st.lists(
    st.one_of(
        st.builds(
            entry, st.sampled_from(KINDS), at=st.lists(st.floats(0, 3600).map(lambda at: round(at, 2)), min_size=1)
        ),
        st.builds(entry, st.sampled_from(KINDS), rate=st.floats(1, 500), until=st.floats(1, 3600)),
    ),
    max_size=4,
)


@given(ENTRIES, st.integers(1, 10**9))
def test_the_same_options_and_seed_give_the_same_failures_in_order_of_time(
    entries: list[dict[str, Any]], seed: int
) -> None:
    first = schedule_failures(entries, seed)
    assert first == schedule_failures(entries, seed)
    assert [failure.number for failure in first] == list(range(len(first)))
    assert [failure.at for failure in first] == sorted(failure.at for failure in first)
    stated = sum(len(options["at"]) for options in entries)
    assert len(first) >= stated
    assert all(0 <= failure.at <= 3600 for failure in first)


def test_a_rate_gives_about_so_many_failures_an_hour_and_another_seed_gives_other_times() -> None:
    hours = [schedule_failures([entry(rate=60, until=3600)], seed) for seed in range(1, 41)]
    assert 55 < sum(map(len, hours)) / len(hours) < 65
    assert len({failures[0].at for failures in hours}) == len(hours)


@given(st.sets(st.text("abc0123", min_size=1), min_size=1, max_size=12), st.integers(1, 99), st.randoms(), st.data())
def test_targets_depend_on_names_and_seed_and_not_on_their_order_or_on_others(
    names: set[str], seed: int, chance: Any, data: st.DataObject
) -> None:
    failure = schedule_failures([entry(at=[1.0], count=data.draw(st.integers(1, len(names))))], seed)[0]
    mixed = list(names)
    chance.shuffle(mixed)
    chosen = choose_targets(failure, sorted(names), seed)
    assert chosen == choose_targets(failure, mixed, seed) and len(chosen) == failure.count
    others = names - set(chosen)
    if others:
        assert choose_targets(failure, sorted(names - {min(others)}), seed) == chosen


def test_a_share_is_rounded_up() -> None:
    failure = schedule_failures([entry(at=[1.0], share=0.25)], 1)[0]
    assert len(choose_targets(failure, [f"n{number}" for number in range(9)], 1)) == 3
    assert choose_targets(failure, [], 1) == []
    third = schedule_failures([entry(at=[1.0], share=0.07)], 1)[0]
    assert 0.07 * 100 > 7, "a share is no exact number"
    assert len(choose_targets(third, [f"n{number}" for number in range(100)], 1)) == 7


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "exactly one of at (seconds after the start) and rate (failures per hour) is required; at is empty"),
        ({"at": [1.0], "rate": 5}, "and rate (failures per hour) is required; both are given"),
        ({"rate": 5.0}, "until is 0 s"),
        ({"at": [-1.0]}, "at has -1"),
        ({"at": [1.0], "share": 1.5}, "share is 1.5"),
        ({"at": [1.0], "count": 0}, "count is 0"),
        ({"rate": 99_999.0, "until": 3600.0}, "at most 10,000"),
        ({"at": [1.0], "pod_fails": True}, "only gpu_lost has option pod_fails"),
        (
            {"kind": "pod_killed", "at": [1.0], "by": "rack"},
            "node_lost, node_drained, gpu_lost, kubelet_restarted have option by",
        ),
        ({"at": [1.0], "taint": "a=b:NoExecute"}, "only gpu_lost has option taint"),
        ({"kind": "gpu_lost", "at": [1.0], "taint": "a=b"}, "taint is 'a=b', it must be like"),
        ({"kind": "gpu_lost", "at": [1.0], "taint": "node.kubernetes.io/x:NoExecute"}, "are the node controller's"),
        ({"kind": "gpu_lost", "at": [1.0], "condition": "GPUHealthy"}, "condition is 'GPUHealthy', it must be like"),
        ({"kind": "gpu_lost", "at": [1.0], "condition": "Ready=False"}, "Ready is written by the kubelet"),
        ({"kind": "gpu_lost", "at": [1.0], "taint": "a:NoExecute", "pod_fails": True}, "leave one out"),
        ({"kind": "kubelet_restarted", "at": [1.0], "duration": 0}, "duration is 0, it must be more than 0"),
        ({"kind": "api_away", "at": [1.0], "selector": "a=b"}, "have option selector"),
        ({"kind": "api_away", "at": [1.0], "worker": "worker-1"}, "only worker_away has option worker"),
        (
            {"kind": "worker_away", "at": [1.0], "worker": "driver"},
            "worker is 'driver', it must be worker- and a number",
        ),
        ({"kind": "worker_away", "at": [1.0], "worker": "worker-1/.."}, "it must be worker- and a number"),
        ({"kind": "worker_away", "at": [1.0], "duration": 0}, "duration is 0, it must be more than 0"),
        ({"kind": "api_away", "at": [1.0], "duration": 0}, "duration is 0, it must be more than 0"),
    ],
)
def test_an_entry_that_cannot_be_is_refused_by_its_value(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as refused:
        schedule_failures([entry(**options)], 1)
    assert text in str(refused.value) and "failures" in str(refused.value)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.booleans(), st.booleans()), max_size=8), st.data())
def test_what_is_open_after_any_part_of_a_file_is_what_was_announced_and_not_undone(
    story: list[tuple[str, bool, bool]], data: st.DataObject
) -> None:
    rows: list[dict[str, Any]] = [{"type": "session"}]
    for number, (kind, injected, undone) in enumerate(story):
        rows.append({"type": "inject", "number": number, "kind": kind, "target": f"t{number}"})
        if injected:
            rows.append({"type": "injected", "number": number, "target": f"t{number}"})
        if undone:
            rows.append({"type": "undone", "number": number, "target": f"t{number}"})
    part = rows[: data.draw(st.integers(0, len(rows)))]
    announced = {row["number"] for row in part if row["type"] == "inject" and row["kind"] in UNDONE_LATER}
    closed = {row["number"] for row in part if row["type"] == "undone"}
    assert {row["number"] for row in failures_not_undone(part)} == announced - closed

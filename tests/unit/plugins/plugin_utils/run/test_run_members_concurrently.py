# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Members run side by side until each has ended, whatever becomes of others."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions import parallel_module_calls
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.actions.parallel_module_calls import (
    FAILED,
    LEFT_OUT,
    PASSED,
    ParallelCall,
)
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ("nodes", "operators", "images", "downloads")


def listed(**after: list[str]) -> list[dict[str, Any]]:
    return [{"name": name, "call": {"module": "a.b.c"}, "after": names} for name, names in after.items()]


def meeting(folder: Path, expected: int, fails: str = "") -> Callable[[ParallelCall], dict[str, Any]]:
    """A call that ends only when all expected members have begun; one of them fails."""

    def call(member: ParallelCall) -> dict[str, Any]:
        (folder / member.name).touch()
        deadline = time.monotonic() + 120
        while len(list(folder.iterdir())) < expected:
            if time.monotonic() > deadline:
                return {"failed": True, "msg": "the others did not begin"}
            time.sleep(0.01)
        if member.name == fails:
            raise RuntimeError(f"{member.name} is broken")
        return {"changed": True, "of": member.name}

    return call


@pytest.mark.parametrize("broken", ["", *NAMES])
def test_all_run_at_the_same_time_and_a_failure_ends_no_other(tmp_path: Path, broken: str) -> None:
    members = [ParallelCall(name, "a.b.c") for name in NAMES]
    found = parallel_module_calls.run_members(members, meeting(tmp_path, len(NAMES), broken), lambda: None)
    assert list(found) == list(NAMES)
    text = parallel_module_calls.outcome_summary(found)
    for name, one in found.items():
        assert one.state == (FAILED if name == broken else PASSED)
        assert name == broken or one.result["of"] == name
        assert (f"{name}: {name} is broken" if name == broken else f"{name}: done after") in text
    assert text.startswith("1 of 4 members failed\n") == bool(broken)


def test_a_member_begins_after_another_and_not_if_that_one_failed() -> None:
    members = parallel_module_calls.parse_members(
        listed(operators=[], components=["operators"], images=["components"], nodes=[])
    )

    def call(member: ParallelCall) -> dict[str, Any]:
        return {"failed": member.name == "operators", "msg": f"said by {member.name}"}

    found = parallel_module_calls.run_members(members, call, lambda: None)
    assert {name: one.state for name, one in found.items()} == {
        "operators": FAILED,
        "components": LEFT_OUT,
        "images": LEFT_OUT,
        "nodes": PASSED,
    }
    assert found["images"].message == "not started, because components failed"
    assert "operators: said by operators" in parallel_module_calls.outcome_summary(found)

    good = parallel_module_calls.run_members(members, lambda _member: {}, lambda: None)
    assert good["operators"].ended <= good["components"].began
    assert good["components"].ended <= good["images"].began


def test_a_killed_member_is_a_failure() -> None:
    def call(member: ParallelCall) -> dict[str, Any]:
        if member.name == "nodes":
            os.kill(os.getpid(), signal.SIGKILL)
        return {}

    found = parallel_module_calls.run_members(
        [ParallelCall("nodes", "m"), ParallelCall("images", "m")], call, lambda: None
    )
    assert found["nodes"].message == "its process was ended before it had a result"
    assert found["images"].state == PASSED


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([*listed(a=[]), *listed(a=[])], "two members 'a'"),
        (listed(nodes=[], images=["node"]), "depends on unknown member 'node'.*nodes"),
        (listed(a=["b"], b=["a"], c=[]), "a, b wait for each other"),
        ([{"name": "a", "call": {"arguments": {"b": 1}}, "after": []}], "a has a call without a module"),
    ],
)
def test_members_that_can_not_be_run_are_refused(asked: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parallel_module_calls.parse_members(asked)


def test_a_member_without_a_call_has_nothing_to_do_and_holds_up_nobody() -> None:
    empty = {"module": None, "arguments": None, "progress": False}  # as Ansible fills in an empty dictionary
    asked = [{"name": "nodes", "call": None, "after": []}, {"name": "volumes", "call": empty, "after": []}]
    asked += listed(images=["nodes", "volumes"])
    assert parallel_module_calls.parse_members(asked) == [ParallelCall("images", "a.b.c")]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sets(st.integers(0, 5)), min_size=1, max_size=6), st.sets(st.integers(0, 5)))
def test_every_member_has_an_outcome(before: list[set[int]], broken: set[int]) -> None:
    names = [f"m{number}" for number in range(len(before))]
    after = {name: [f"m{one}" for one in sorted(before[place]) if one < place] for place, name in enumerate(names)}
    members = parallel_module_calls.parse_members(listed(**after))
    bad = {f"m{one}" for one in broken}
    found = parallel_module_calls.run_members(
        members, lambda one: {"failed": one.name in bad, "msg": "no"}, lambda: None
    )
    for name, names_before in after.items():
        lost = any(found[one].state != PASSED for one in names_before)
        assert found[name].state == (LEFT_OUT if lost else FAILED if name in bad else PASSED)


def test_an_outcome_holds_no_arguments() -> None:
    result = {"invocation": {"module_args": {"token": "x"}}, "_ansible_x": 1, "n": 2}
    one = parallel_module_calls.MemberOutcome(PASSED, 0, 1, result)
    assert one.document() == {"n": 2, "state": PASSED, "began": 0, "ended": 1}

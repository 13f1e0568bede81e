# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of modules that run side by side, each in a separate process until it has ended, whatever becomes of others.

The processes are forks of Ansible's worker. They and their modules stay in its process group, by which they are ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from ansible import constants
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.signals import ENDING
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import role_call_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.terminal_output import ProgressTail, show_line

from .action_base import ansible_errors
from .module_actions import InPlaceAction, terminate_process_group

#: Seconds between two looks at what the members say.
INTERVAL = 0.2
#: States of a member that has ended. One that was left out was never started, because a member before it failed.
PASSED, FAILED, LEFT_OUT = "passed", "failed", "left_out"

ARGUMENTS: dict[str, Any] = {
    "members": {
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "required": True},
            "call": {
                "type": "dict",
                "options": {
                    "module": {"type": "str"},
                    "arguments": {"type": "dict"},
                    "progress": {"type": "bool", "default": False},
                },
            },
            "after": {"type": "list", "elements": "str", "default": []},
        },
    },
    "step_dir": {"type": "path"},
}

Call = Callable[["ParallelCall"], dict[str, Any]]


@dataclass(frozen=True)
class ParallelCall:
    """One call. after: names of members that must have passed before. progress: whether the module reports progress."""

    name: str
    module: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[str, ...] = ()
    progress: bool = False


@dataclass
class MemberOutcome:
    """How a member ended. began, ended: seconds since the first member began."""

    state: str
    began: float
    ended: float
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def message(self) -> str:
        """The error of a member that failed, or why it was not started."""
        return str(self.result.get("msg") or "it failed without a message")

    def text(self, name: str) -> str:
        """Return how a member of this name ended, in one line."""
        if self.state == PASSED:
            return f"{name}: done after {self.ended - self.began:.0f} s"
        return f"{name}: {self.message}"

    def document(self) -> dict[str, Any]:
        """Return the outcome as the module returns it: the result of the member, with its state and times."""
        times = {"began": round(self.began, 2), "ended": round(self.ended, 2)}
        known = {name: value for name, value in self.result.items() if name != "invocation" and name[0] != "_"}
        return {**known, "state": self.state, **times}


def parse_members(specs: Sequence[Mapping[str, Any]]) -> list[ParallelCall]:
    """Return the members that a task names, without those that have no call.

    Raises InputError for two of one name, an unknown one, a call without a module, and a circle.
    """
    names = [spec["name"] for spec in specs]
    members: dict[str, ParallelCall] = {}
    for spec in specs:
        name, call = spec["name"], spec["call"] or {}
        if names.count(name) > 1:
            raise InputError(f"members: there are two members '{name}'")
        for before in spec["after"]:
            if before not in names:
                raise InputError(
                    f"members: {name} depends on unknown member '{before}'{suggest_similar_name(before, names)}"
                )
        if call.get("arguments") and not call.get("module"):
            raise InputError(f"members: {name} has a call without a module")
        if call.get("module"):
            progress = bool(call.get("progress"))
            members[name] = ParallelCall(
                name, call["module"], call.get("arguments") or {}, tuple(spec["after"]), progress
            )
    known = {
        name: replace(member, after=tuple(filter(members.__contains__, member.after)))
        for name, member in members.items()
    }
    _refuse_circle(known)
    return list(known.values())


def _refuse_circle(known: Mapping[str, ParallelCall]) -> None:
    left = dict(known)
    while left:
        ready = [name for name, member in left.items() if not any(before in left for before in member.after)]
        if not ready:
            raise InputError(f"members: {', '.join(left)} wait for each other, so none of them can begin")
        for name in ready:
            del left[name]


def run_members(
    members: Sequence[ParallelCall],
    call: Call,
    look: Callable[[], None],
    say: Callable[[str], None] = lambda _text: None,
) -> dict[str, MemberOutcome]:
    """Run all members and return how each ended, in their order. A failed member ends no other one.

    call: runs one member, in a separate process, and returns the result of its module. look: called at intervals.
    say: gets a line when a member has ended while others have not.
    """
    fork, began = get_context("fork"), time.monotonic()
    waiting, ended = {member.name: member for member in members}, dict[str, MemberOutcome]()
    running: dict[str, tuple[float, Any, Any]] = {}
    while waiting or running:
        for member in list(waiting.values()):
            now = time.monotonic() - began
            lost = [name for name in member.after if name in ended and ended[name].state != PASSED]
            if lost:
                why = f"not started, because {formats.format_list(lost)} failed"
                ended[member.name] = MemberOutcome(LEFT_OUT, now, now, {"msg": why})
            elif all(name in ended for name in member.after):
                receiver, sender = fork.Pipe(duplex=False)
                process = fork.Process(target=_run_one, args=(member, call, sender), name=member.name)
                process.start()
                sender.close()
                running[member.name] = (now, process, receiver)
            else:
                continue
            del waiting[member.name]
        ready = connection.wait([entry[2] for entry in running.values()], INTERVAL)
        look()
        for name, (started, process, receiver) in list(running.items()):
            if receiver in ready:
                task_result = _receive_call_result(receiver)
                process.join()
                state = FAILED if task_result.get("failed") else PASSED
                ended[name] = MemberOutcome(state, started, time.monotonic() - began, task_result)
                del running[name]
                if left := [*running, *waiting]:
                    failed = "failed: " if state == FAILED else ""
                    say(f"{failed}{ended[name].text(name)}; still to end: {formats.format_list(left)}")
    look()
    return {member.name: ended[member.name] for member in members}


def _run_one(member: ParallelCall, call: Call, sender: Any) -> None:
    for number in ENDING:  # the module gets these signals too, and ends in order
        signal.signal(number, signal.SIG_DFL)
    try:
        task_result = call(member)
    except Exception as error:
        task_result = {"failed": True, "msg": str(error)}
    sender.send(task_result)
    sender.close()


def _receive_call_result(receiver: Any) -> dict[str, Any]:
    try:
        task_result: dict[str, Any] = receiver.recv()
    except EOFError:
        task_result = {"failed": True, "msg": "its process was ended before it had a result"}
    receiver.close()
    return task_result


def outcome_summary(outcomes: Mapping[str, MemberOutcome]) -> str:
    """Return how the members ended, one line each: errors first."""
    failed = [name for name, outcome in outcomes.items() if outcome.state == FAILED]
    lines = [f"{len(failed)} of {formats.format_count(len(outcomes), 'member')} failed"] if failed else []
    for state in (FAILED, LEFT_OUT, PASSED):
        lines += [outcome.text(name) for name, outcome in outcomes.items() if outcome.state == state]
    return "\n".join(lines)


def combine_member_results(outcomes: Mapping[str, MemberOutcome], step: StepDirectory) -> dict[str, Any]:
    """Return the result of the task, which failed if a member did; write it to the log of ``step``."""
    text = outcome_summary(outcomes)
    for line in text.splitlines():
        step.log(line)
    failed = [outcome for outcome in outcomes.values() if outcome.state == FAILED]
    return {
        "changed": any(outcome.result.get("changed") for outcome in outcomes.values()),
        "members": {name: outcome.document() for name, outcome in outcomes.items()},
        **({"failed": True, "msg": text, "error": failed[0].result.get("error", "")} if failed else {}),
    }


class SideBySideAction(InPlaceAction):
    """Runs the members of its task."""

    def execute(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the members and return the result of each."""
        _validation, params = self.validate_argument_spec(ARGUMENTS)
        with ansible_errors():
            members = parse_members(params["members"])
        step = StepDirectory(params["step_dir"])
        with tempfile.TemporaryDirectory(prefix="seatrial-members-", dir=constants.DEFAULT_LOCAL_TMP) as folder:
            files = {
                member.name: str(Path(folder) / str(number)) for number, member in enumerate(members) if member.progress
            }
            tails = [ProgressTail(path) for path in files.values()]
            parent = os.getppid()

            def look() -> None:
                if os.getppid() != parent:
                    terminate_process_group()  # ansible-playbook was killed
                for line in (line for tail in tails for line in tail.lines()):
                    show_line(line, stderr=True)

            def say(text: str) -> None:
                step.log(text)
                show_line(text, stderr=True)

            def call(member: ParallelCall) -> dict[str, Any]:
                return self._call(member, files.get(member.name), task_vars)

            try:
                outcomes = run_members(members, call, look, say)
            except BaseException:
                terminate_process_group()
                raise
        for member in members:
            if outcomes[member.name].state != PASSED:
                _write_failure_file(member, outcomes[member.name].message)
        return combine_member_results(outcomes, step)

    def _call(self, member: ParallelCall, progress: str | None, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Run the module of a member. This process is a fork: what it changes is its own."""
        self._connection._shell.tmpdir = None  # a separate folder for the module of each member
        arguments = {**member.arguments, **({"progress_file": progress} if progress else {})}
        try:
            result: dict[str, Any] = self._execute_module(
                module_name=member.module, module_args=arguments, task_vars=task_vars
            )
            return result
        finally:
            with contextlib.suppress(Exception):
                self.cleanup(force=True)


def _write_failure_file(member: ParallelCall, message: str) -> None:
    """Write FAILURE into the directory of the role call that the member belongs to, if it has one."""
    path = member.arguments.get("step_dir")
    if path and Path(path).is_dir():
        role_call_record.add_line_to_failure_file(Path(path), f"{member.name}: {message}")

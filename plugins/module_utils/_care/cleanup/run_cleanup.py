# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clean up after a run, or verify that nothing is left: the work of module cleanup_run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

from . import created_kinds, deletion_order, wait_for_load_end
from .label_sweep import CleanupOutcome, Sweep, verify

#: Timeout of one request, in seconds.
_REQUEST = 90.0

#: Timeout for the load of a killed run to end, in seconds.
_LOAD_END = 30.0


@dataclass(frozen=True)
class CleanupSpec:
    """The module's options."""

    kubeconfig: str
    run_id: str
    context: str = ""
    selector: str = ""
    kinds: tuple[str, ...] = ()
    keep_nodes: bool = False
    verify: bool = False
    timeout: float = 300.0
    unreachable: str = "fail"
    owned: bool = False
    removed_next: bool = False
    run_dir: str | None = None
    progress_file: str | None = None
    dry: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any], dry: bool) -> CleanupSpec:
        """Return the specification from the parameters of the module. dry: in check mode."""
        names = {one.name for one in fields(cls)} - {"dry"}
        return cls(**{name: value for name, value in given.items() if name in names}, dry=dry)


def run(spec: CleanupSpec, step: Step) -> dict[str, Any]:
    """Clean up or verify; return the module's result.

    Raises CleanupTimeout, and AccessError for an unreachable server unless it may be skipped.
    """
    deletion_order.selector(spec.run_id, spec.selector)
    say = step.reporter(spec.progress_file, "cleanup")
    if spec.run_dir and not spec.verify:
        wait_for_load_end.wait(Path(spec.run_dir), _LOAD_END, say)
    if spec.removed_next and not spec.verify:
        text = f"the objects of run {spec.run_id} go with their cluster, which is removed next"
        say(text)
        return {"changed": False, "reachable": False, "summary": text, **asdict(CleanupOutcome())}
    if spec.unreachable == "skip" and not Path(spec.kubeconfig).expanduser().exists():
        return _unreached(spec, say, f"{spec.kubeconfig} does not exist")
    with Client.from_kubeconfig(spec.kubeconfig, spec.context, timeout=_REQUEST) as client:
        try:
            client.request("GET", "/version")
        except AccessError as error:
            if spec.unreachable == "fail":
                raise
            return _unreached(spec, say, str(error))
        known = created_kinds.read(spec.run_dir) if spec.run_dir else {}
        sweep = Sweep(client, spec.run_id, spec.selector, spec.kinds, spec.keep_nodes, say, known)
        with step.timed("cleanup", "verify" if spec.verify else "delete and wait"):
            return _swept(spec, sweep, say)


def _swept(spec: CleanupSpec, sweep: Sweep, say: Callable[[str], None]) -> dict[str, Any]:
    if spec.verify:
        outcome = verify(sweep)
        text = f"0 objects of run {spec.run_id} on {sweep.client.access.server}"
    elif spec.dry:
        outcome = CleanupOutcome(
            deletion_order.counts(sweep.find()), kept=sweep.outcome.kept, unlisted=sweep.outcome.unlisted
        )
        text = f"would delete {deletion_order.text(outcome.deleted)} of run {spec.run_id}"
    else:
        outcome = sweep.clean(spec.timeout)
        text = f"deleted {deletion_order.text(outcome.deleted)} of run {spec.run_id}"
    if outcome.kept:
        text += f"; kept {deletion_order.text(outcome.kept)}"
    if outcome.handed_over:
        text += f"; others use {', '.join(outcome.handed_over)}, which is kept"
    say(text)
    changed = bool(outcome.deleted or outcome.handed_over) and not spec.verify
    return {"changed": changed, "reachable": True, "summary": text, **asdict(outcome)}


def _unreached(spec: CleanupSpec, say: Callable[[str], None], why: str) -> dict[str, Any]:
    fate = "are deleted with the cluster when it is released" if spec.owned else "remain"
    text = f"nothing was deleted: {why}; objects of run {spec.run_id}, if any, {fate}"
    say(text)
    return {"changed": False, "reachable": False, "summary": text, **asdict(CleanupOutcome())}

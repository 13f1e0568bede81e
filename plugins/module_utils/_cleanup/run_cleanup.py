# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What module cleanup_run does with its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._cleanup import (
    created_kinds,
    deletion_order,
    wait_for_load_end,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._cleanup.label_sweep import (
    CleanupOutcome,
    Sweep,
    verify,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._step_dir import Step

#: Seconds that one request may take: deleting a big collection is one request.
_REQUEST = 90.0

#: Seconds in which a load whose run was killed has ended.
_WRITERS = 30.0


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
    run_dir: str | None = None
    progress_file: str | None = None
    dry: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any], dry: bool) -> CleanupSpec:
        """Take the options that a module was given."""
        names = {one.name for one in fields(cls)} - {"dry"}
        return cls(**{name: value for name, value in given.items() if name in names}, dry=dry)


def run(order: CleanupSpec, step: Step) -> dict[str, Any]:
    """Clean or verify; return the module's result. Raises what Sweep raises, and AccessError when that is a failure."""
    deletion_order.selector(order.run_id, order.selector)
    say = step.reporter(order.progress_file, "cleanup")
    if order.run_dir and not order.verify:
        wait_for_load_end.wait(Path(order.run_dir), _WRITERS, say)
    if order.unreachable == "skip" and not Path(order.kubeconfig).expanduser().exists():
        return _unreached(order, say, f"{order.kubeconfig} does not exist")
    with Client.from_kubeconfig(order.kubeconfig, order.context, timeout=_REQUEST) as client:
        try:
            client.request("GET", "/version")
        except AccessError as error:
            if order.unreachable == "fail":
                raise
            return _unreached(order, say, str(error))
        known = created_kinds.read(order.run_dir) if order.run_dir else {}
        sweep = Sweep(client, order.run_id, order.selector, order.kinds, order.keep_nodes, say, known)
        with step.timed("cleanup", "verify" if order.verify else "delete and wait"):
            return _swept(order, sweep, say)


def _swept(order: CleanupSpec, sweep: Sweep, say: Callable[[str], None]) -> dict[str, Any]:
    if order.verify:
        outcome = verify(sweep)
        text = f"0 objects of run {order.run_id} on {sweep.client.access.server}"
    elif order.dry:
        outcome = CleanupOutcome(
            deletion_order.counts(sweep.find()), kept=sweep.outcome.kept, unlisted=sweep.outcome.unlisted
        )
        text = f"would delete {deletion_order.text(outcome.deleted)} of run {order.run_id}"
    else:
        outcome = sweep.clean(order.timeout)
        text = f"deleted {deletion_order.text(outcome.deleted)} of run {order.run_id}"
    if outcome.kept:
        text += f"; kept {deletion_order.text(outcome.kept)}"
    if outcome.handed_over:
        text += f"; others use {', '.join(outcome.handed_over)}, which stays"
    say(text)
    changed = bool(outcome.deleted or outcome.handed_over) and not order.verify
    return {"changed": changed, "reachable": True, "summary": text, **asdict(outcome)}


def _unreached(order: CleanupSpec, say: Callable[[str], None], why: str) -> dict[str, Any]:
    fate = "are deleted with the cluster when it is released" if order.owned else "remain"
    text = f"nothing was deleted: {why}; objects of run {order.run_id}, if any, {fate}"
    say(text)
    return {"changed": False, "reachable": False, "summary": text, **asdict(CleanupOutcome())}

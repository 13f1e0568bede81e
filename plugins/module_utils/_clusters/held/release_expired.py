# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Release the clusters that have expired: the work of module held_clusters."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_files import Step

from ..rehearsal import cluster_lifecycle
from ..rehearsal.rehearsal_options import Options
from . import held_clusters


def release(given: Mapping[str, Any], step: Step, say: Callable[[str], None], check: bool) -> dict[str, Any]:
    """List the held clusters and release each expired one, also after an error with another.

    Raises ProcessError naming those that could not be released.
    """
    held, listed = held_clusters.listing(given["artifacts_dir"], given["rehearsal_dir"])
    expired = [one for one in held if one.expired]
    failures: list[str] = []
    for one in [] if check else expired:
        say(f"releasing {one.line()}")
        error = _release(one, given, step)
        if error:
            failures.append(f"{one.provider} cluster {one.name} of run {one.run}: {error}")
    if failures:
        raise ProcessError("could not release " + "; ".join(failures))
    return {"changed": bool(expired), **listed, "reaped": [one.name for one in expired]}


def _release(one: held_clusters.HeldCluster, given: Mapping[str, Any], step: Step) -> str:
    if one.command:
        folder = step.path or Path(tempfile.mkdtemp(prefix="seatrial-reap-"))
        return held_clusters.give_back(
            one.command, folder / f"reap-{one.run}.log", given["timeout"], processes.environment()
        )
    if one.provider != held_clusters.REHEARSAL:
        return f"{one.run_dir} has no file GIVE_BACK"
    options = {"name": one.name, "data_dir": given["rehearsal_dir"], "components_dir": given["components_dir"]}
    try:
        cluster_lifecycle.absent(Options.of({**options, "cache_dir": "", "force": True}), lambda _line: None)
    except SeatrialError as error:
        return str(error)
    return ""

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose the installer's folder of a cluster is: two runs may have the same cluster_name.

Without the owner, the second run would take the installation of the first one for its own, and destroy it at its end.
"""

from __future__ import annotations

from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, OwnershipError

FILE = "run.json"


def claim_folder(folder: Path, run: str) -> None:
    """Record the run that a folder belongs to."""
    if run:
        files.write_json(folder / FILE, {"run": run})


def run_of_folder(folder: Path) -> str:
    """Return the run that a folder belongs to; empty if it is unknown or there is no folder."""
    try:
        return str(files.read_json(folder / FILE)["run"])
    except (DataError, KeyError, TypeError):
        return ""


def is_folder_of_another_run(folder: Path, run: str) -> bool:
    """Return whether a folder belongs to another run. run: empty for a release that names the cluster itself."""
    return bool(run) and run_of_folder(folder) not in ("", run)


def refuse_folder_of_another_run(folder: Path, run: str) -> None:
    """Raise OwnershipError if a folder belongs to another run."""
    if is_folder_of_another_run(folder, run):
        raise OwnershipError(
            f"{folder} holds the cluster {folder.name} of run {run_of_folder(folder)}: choose another cluster_name, or "
            "release that cluster first"
        )

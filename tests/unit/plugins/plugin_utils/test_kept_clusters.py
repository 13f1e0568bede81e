# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kept cluster is refused before the clean-up, not after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import cluster_record
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import kept_clusters

KEEP = {"cluster_keep": True}


def refuse(run_dir: Path, settings: dict, *tags: str) -> None:
    kept_clusters.refuse_release(run_dir, settings, tags, "THE COMMAND")


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    values = {"provider": "rehearsal", "name": "one", "owned": True, "state": "acquired"}
    cluster_record.update(tmp_path, ["sutest", "driver"], {**values, "expires": "2026-11-23T04:00:00.000000Z"})
    return tmp_path


def test_a_release_of_a_kept_cluster_is_refused_with_the_command_that_works(run_dir: Path) -> None:
    with pytest.raises(OwnershipError, match="rehearsal cluster one is kept .* until 2026.*nothing.*: THE COMMAND$"):
        refuse(run_dir, KEEP, "cleanup", "release")


def test_what_is_not_kept_not_asked_for_or_not_ours_is_not_refused(run_dir: Path) -> None:
    refuse(run_dir, {"cluster_keep": False}, "cleanup", "release")
    refuse(run_dir, KEEP, "cleanup")
    for change in ({"state": "released"}, {"state": "acquired", "owned": False}):
        cluster_record.update(run_dir, ["sutest", "driver"], change)
        refuse(run_dir, KEEP, "release")

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cleanup reports of a cluster that it can't reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup


@pytest.mark.parametrize(
    ("owned", "fate"), [(True, "are deleted with the cluster when it is released"), (False, "remain")]
)
def test_only_the_release_of_an_owned_cluster_deletes_the_objects(owned: bool, fate: str, tmp_path: Path) -> None:
    spec = run_cleanup.CleanupSpec(str(tmp_path / "none"), "t1121-abcdef", unreachable="skip", owned=owned)
    result = run_cleanup.clean_up_or_verify(spec, StepDirectory(None))
    assert result["summary"].endswith(f"; objects of run t1121-abcdef, if any, {fate}") and not result["reachable"]


def test_a_cluster_that_is_removed_next_is_asked_nothing_but_the_load_must_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[Path] = []
    monkeypatch.setattr(run_cleanup, "wait_for_load_end", lambda run_dir, *_more: waited.append(run_dir))
    kubeconfig = str(tmp_path / "none")  # reading it would fail
    spec = run_cleanup.CleanupSpec(kubeconfig, "t1121-abcdef", removed_next=True, run_dir=str(tmp_path))
    result = run_cleanup.clean_up_or_verify(spec, StepDirectory(None))
    assert waited == [tmp_path] and not result["changed"] and not result["reachable"]
    assert result["summary"] == "the objects of run t1121-abcdef go with their cluster, which is removed next"

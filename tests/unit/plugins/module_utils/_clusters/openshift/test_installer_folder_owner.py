# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs with the same cluster_name: the second neither uses nor removes what the first one has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import (
    cluster_metadata_store,
    installer_actions,
    installer_folder_owner,
)


@pytest.fixture
def params(tmp_path: Path) -> dict[str, Any]:
    """What a step of run t1-second gets, beside the folder of an installation that run t1-first has begun."""
    folder = tmp_path / "perf"
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "metadata.json").write_text('{"infraID": "perf-abcde"}', encoding="utf-8")
    installer_folder_owner.claim_folder(folder, "t1-first")
    store = str(tmp_path / "store")
    cluster_metadata_store.write_cluster_entry(store, "perf", {"run": "t1-first"})
    common = {"name": "perf", "environment": {}, "store": store, "metadata": {}, "entry": {}, "program": ""}
    return {**common, "install_dir": folder, "run_id": "t1-second"}


@pytest.mark.parametrize("state", ["destroyed", "absent"])
def test_what_another_run_has_installed_stays_when_a_run_of_the_same_name_ends(params: Any, state: str) -> None:
    said: list[str] = []
    assert installer_actions.run_install_step(state, params, said.append, None) == {"changed": False}
    assert said == [f"{params['install_dir']} belongs to run t1-first and stays"]
    assert (params["install_dir"] / "assets" / "metadata.json").exists()
    assert cluster_metadata_store.read_cluster_entry(params["store"], "perf") == {"run": "t1-first"}


@pytest.mark.parametrize("state", ["prepared", "begun", "gathered"])
def test_the_installation_of_another_run_is_not_continued(params: Any, state: str) -> None:
    with pytest.raises(OwnershipError, match="holds the cluster perf of run t1-first: choose another cluster_name"):
        installer_actions.run_install_step(state, params, print, None)
    with pytest.raises(OwnershipError, match="holds the cluster perf of run t1-first"):  # from another machine
        installer_actions.run_install_step("destroyed", {**params, "metadata": {"infraID": "x"}}, print, None)


@pytest.mark.parametrize("run", ["t1-first", ""])
def test_the_run_itself_and_a_release_by_name_remove_it(params: Any, run: str) -> None:
    assert installer_actions.run_install_step("absent", {**params, "run_id": run}, print, None) == {"changed": True}
    assert not params["install_dir"].exists()
    assert list(Path(params["store"]).iterdir()) == []


def test_an_entry_of_another_run_is_not_replaced(params: Any) -> None:
    with pytest.raises(OwnershipError, match="has a cluster perf of run t1-first: choose another cluster_name, or"):
        cluster_metadata_store.write_cluster_entry(params["store"], "perf", {"run": "t1-second"})
    cluster_metadata_store.write_cluster_entry(params["store"], "perf", {"run": "t1-first", "metadata": {}})
    (Path(params["store"]) / "perf.json").write_text("{", encoding="utf-8")
    with pytest.raises(OwnershipError, match="has a cluster perf of an unknown run"):
        cluster_metadata_store.write_cluster_entry(params["store"], "perf", {"run": "t1-first"})

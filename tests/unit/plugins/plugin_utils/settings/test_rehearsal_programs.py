# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a run's rehearsal cluster before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import component_selection
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import cluster_settings

FOLDER = Path(__file__).parents[5] / "roles" / "rehearsal" / "files" / "components"


def check(cache: Path, job: int | None, *given: str, by: str = "", **more: Any) -> None:
    settings = {
        "rehearsal_cache_dir": str(cache),
        "rehearsal_data_dir": str(cache),
        "rehearsal_components": ["kueue"],
        "cluster_provider": "rehearsal",
        **more,
    }
    cluster_settings.check_component_programs(FOLDER, settings, given, job, lambda _name: by)


def test_a_job_of_awx_builds_no_programs(tmp_path: Path) -> None:
    words = r"cluster_provider is rehearsal \(the default\), and this job of AWX has no programs for .*kueue.*to \d+"
    with pytest.raises(InputError, match=words):
        check(tmp_path, 7)
    with pytest.raises(InputError, match=r"is rehearsal \(set by -e\), and"):
        check(tmp_path, 7, by=" (set by -e)")


@pytest.mark.parametrize("name", cluster_settings.PROGRAM_PLACES)
def test_a_job_of_awx_with_a_place_for_programs_may_make_them(name: str, tmp_path: Path) -> None:
    check(tmp_path, 7, name)


def test_a_job_of_awx_with_programs_runs(tmp_path: Path) -> None:
    known = component_selection.load_all_components(FOLDER)
    names = {
        name for one in component_selection.select_required_components(known, ["kueue"]) for name in one.build.binaries
    }
    programs = {name: str(tmp_path / name) for name in names}
    for path in programs.values():
        Path(path).touch(mode=0o755)
    with pytest.raises(InputError) as raised:  # only the definitions of Kueue's objects are missing
        check(tmp_path, 7, rehearsal_binaries=programs)
    assert "control-plane" not in str(raised.value) and "kueue" in str(raised.value)


def test_outside_of_awx_programs_are_built(tmp_path: Path) -> None:
    check(tmp_path, None)


@pytest.mark.parametrize(
    ("more", "name"),
    [({"rehearsal_components": ["workload-aware"]}, "workload-aware"), ({"rehearsal_nodes_real": 1}, "kubelet")],
)
def test_a_component_that_is_too_new_for_the_version_of_kubernetes_is_refused(
    more: dict[str, Any], name: str, tmp_path: Path
) -> None:
    check(tmp_path, None, **more)
    words = f"component {name} does not work with control-plane 1.35.4: it needs 1.36.0 or newer"
    with pytest.raises(InputError, match=words) as raised:
        check(tmp_path, None, rehearsal_versions={"control-plane": "1.35.4"}, **more)
    assert raised.value.setting == "rehearsal_versions"


def test_a_component_that_is_too_old_for_the_version_of_kubernetes_is_refused(tmp_path: Path) -> None:
    newer = {"rehearsal_versions": {"control-plane": "1.37.2"}}
    check(tmp_path, None, **newer)
    words = "component workload-aware does not work with control-plane 1.37.2: it needs a version before 1.37.0"
    with pytest.raises(InputError, match=words):
        check(tmp_path, None, rehearsal_components=["workload-aware"], **newer)


def test_an_unknown_component_is_refused_everywhere(tmp_path: Path) -> None:
    for job in (None, 7):
        with pytest.raises(InputError, match="kueu"):
            check(tmp_path, job, rehearsal_components=["kueu"])

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is refused before a run begins: phases without a cluster or run, files that are not there."""

from __future__ import annotations

import os
import re
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run, providers
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    checks_declared_by_roles,
    phase_preconditions,
    resolve_settings,
    setting_templates,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_layers import (
    RequestedSettings,
    SettingsLayer,
)
from preflight import CATALOGUE, DEFAULTS, PHASES, check, preflight

pytestmark = pytest.mark.usefixtures("ansible_plugins")  # defaults look up the environment


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_alone_runs_or_says_what_it_needs(phase: str) -> None:
    needs = {name: f"phase {name} needs a cluster, and this run has none" for name in ("prepare", "test")}
    needs |= {name: f"--tags {name} works on what an earlier run left" for name in phase_preconditions.AFTERWARDS}
    if phase in needs:
        with pytest.raises(InputError, match=needs[phase]):
            check([phase])
    else:
        check([phase])


def test_the_remedy_names_the_phases_that_are_missing() -> None:
    with pytest.raises(InputError, match="take one first, --tags cluster,prepare,test, or go on with a run that has"):
        check(["test", "report"])
    check(["cluster", "prepare", "test"])
    check(PHASES)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("released", "this run has given its own back"),
        ("acquiring", "the one of this run was never ready"),
        ("failed", r"the one of this run failed \(no quota\)"),
    ],
)
def test_a_run_without_its_cluster_is_not_tested(state: str, why: str, tmp_path: Path) -> None:
    clusters_of_run.update_host_records(
        tmp_path, ["sutest", "driver"], {"provider": "rehearsal", "state": state, "failure": "no quota"}
    )
    with pytest.raises(InputError, match=f"phase test needs a cluster, and {why}"):
        check(["test"], tmp_path)
    check(["report", "cleanup", "release"], tmp_path)
    check(["cluster", "prepare", "test"], tmp_path)


def test_a_run_with_its_cluster_goes_on(tmp_path: Path) -> None:
    clusters_of_run.update_host_records(tmp_path, ["sutest", "driver"], {"provider": "rehearsal", "state": "acquired"})
    check(["test"], tmp_path)


@pytest.mark.parametrize("state", ["acquired", "acquiring", "failed", "released"])
def test_a_run_is_not_continued_on_another_cluster(state: str, tmp_path: Path) -> None:
    used = {"provider": "rehearsal", "name": "mine", "state": state}
    clusters_of_run.update_host_records(tmp_path, ["sutest", "driver"], used)
    for phases in (PHASES, ["cluster", "prepare", "test"]):
        with pytest.raises(InputError, match="gives cluster 'other', and this run used rehearsal cluster 'mine'"):
            check(phases, tmp_path, rehearsal_name="other")
        check(phases, tmp_path, rehearsal_name="mine")
        check(phases, tmp_path)
    check(["report", "cleanup", "release"], tmp_path, rehearsal_name="other")
    if state != "released":
        with pytest.raises(InputError, match="is hive_pool, and this run still holds rehearsal cluster mine for sutes"):
            check(["cluster", "prepare", "test"], tmp_path, cluster_provider="hive_pool")


def test_what_is_named_without_a_run_directory_is_given_back() -> None:
    check(["release"], cluster_release_named="t1121-k3f9xa")
    check(["release"], quads_lease_id="t1121-k3f9xa")


def test_a_missing_file_is_refused_for_the_phases_that_read_it_and_at_every_point(tmp_path: Path) -> None:
    there = tmp_path / "page.html.j2"
    there.write_text("", encoding="utf-8")
    wrong = str(tmp_path / "pge.html.j2")
    words = rf"results_template: there is no {wrong} \(did you mean '{there}'\?\) \(set by -e\)"
    with pytest.raises(InputError, match=words):
        check(PHASES, results_template=wrong)
    check(["cluster", "prepare", "test"], results_template=wrong)
    check(PHASES, results_template=str(there))
    matrix = SettingsLayer("preset", "p", {})
    with pytest.raises(InputError, match="results_template: there is no"):
        check(PHASES, None, matrix, matrix={"results_template": [str(there), wrong]})


def test_who_gave_a_missing_file_is_named_with_the_line() -> None:
    lab = SettingsLayer(
        "inventory", "inventory", {"results_template": "/no/page"}, {"results_template": "/lab/all.yml:7:3"}
    )
    with pytest.raises(InputError, match=r"there is no /no/page \(set by inventory, /lab/all.yml:7:3\)"):
        check(PHASES, None, lab)


def test_a_file_that_only_another_provider_reads_is_not_asked_for() -> None:
    check(PHASES, cluster_hive_kubeconfig="/no/hub")
    with pytest.raises(InputError, match="cluster_hive_kubeconfig: there is no /no/hub"):
        check(PHASES, cluster_hive_kubeconfig="/no/hub", cluster_provider="hive_pool")


def kubeconfig(folder: Path, port: int) -> Path:
    path = folder / "config"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: lab
contexts: [{{name: lab, context: {{cluster: lab, user: lab}}}}]
clusters: [{{name: lab, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: lab, user: {{token: t}}}}]
""",
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(("listens", "cause"), [(False, "can't be reached: .*refused"), (True, "no answer")])
def test_an_existing_cluster_that_does_not_respond_is_refused_before_the_run_begins(
    listens: bool, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(providers, "REACH_TIMEOUT", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if listens:
            taken.listen(4)  # accepts, and never answers
        path = kubeconfig(tmp_path, taken.getsockname()[1])
        given = {"cluster_provider": "existing", "cluster_kubeconfig": str(path)}
        message = rf"cluster for sutest and driver: http://127.0.0.1:.*{cause}"
        with pytest.raises(InputError, match=message):
            check(PHASES, **given)
        check(["report", "cleanup", "release"], tmp_path, **given)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("file", "{0}/file is not a folder"),
        ("file/below", "{0}/file is not a folder"),
        ("closed/new", "{0}/closed can"),
    ],
)
def test_a_place_where_no_run_directory_can_be_is_refused_first(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path).name != "closed")
    words = rf"run_artifacts_dir: no run directory can be created in {tmp_path}/{name} \(set by -e\): "
    for chosen in (PHASES, ["settings"]):
        with pytest.raises(InputError, match=words + why.format(tmp_path)):
            check(chosen, run_artifacts_dir=str(tmp_path / name))
    check(PHASES, run_artifacts_dir=str(tmp_path / "new" / "deep"))


@pytest.mark.parametrize(
    ("name", "why"), [("file", "file is not a folder"), ("closed/new", "closed can't be written to")]
)
def test_a_place_where_no_rehearsal_cluster_can_be_is_refused_first(
    name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path).name != "closed")
    folder = str(tmp_path / name)
    with pytest.raises(InputError, match=rf"rehearsal_data_dir: no rehearsal cluster .* \(set by -e\): .*{why}"):
        check(PHASES, rehearsal_data_dir=folder)
    check(["report", "cleanup", "release"], tmp_path, rehearsal_data_dir=folder)
    check(PHASES, rehearsal_data_dir=str(tmp_path / "new"))


def test_a_disk_that_is_full_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1_000_000))
    with pytest.raises(InputError, match="run_artifacts_dir: no run directory .*: 1 MB are free .* 20 MB are needed"):
        check(PHASES)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=100_000_000))
    with pytest.raises(InputError, match="rehearsal_data_dir: no rehearsal cluster .*: 100 MB are free .* 300 MB are"):
        check(PHASES)


def test_the_variable_that_names_a_wrong_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ARTIFACT_DIR", str(tmp_path / "file"))
    with pytest.raises(InputError, match="set by the environment variable ARTIFACT_DIR"):
        check(PHASES)


def test_a_load_that_fits_on_no_simulated_node_is_refused_before_the_cluster_starts() -> None:
    words = (
        "fine_tuning, point 001: can never run on the 4 simulated nodes: a pod asks for 9999 nvidia.com/gpu, and the "
        r"largest node has 8; .* fake_gpu_nodes \(4\) or fake_gpu_gpus_per_node \(8\)"
    )
    with pytest.raises(InputError, match=words):
        check(PHASES, fine_tuning_gpus=9999)
    with pytest.raises(InputError, match="point 002: can never run"):
        check(PHASES, matrix={"fine_tuning_gpus": [1, 9]})
    check(PHASES, fine_tuning_gpus=9, fake_gpu_gpus_per_node=16)


@pytest.mark.parametrize(
    "given",
    [
        {"rehearsal_name": "with-more-nodes"},
        {"node_scaling_count": 1},
        {"doctor_fail": False},
        {"cluster_provider": "openshift_ipi", "cluster_base_domain": "lab.example.com", "cluster_ipi_region": "r"},
    ],
)
def test_a_load_is_not_refused_where_the_nodes_are_unknown_or_the_user_insists(given: dict[str, Any]) -> None:
    check(PHASES, fine_tuning_gpus=9999, **given)


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({"cluster_kubeconfig": "/lab/kubeconfig"}, ["cluster_kubeconfig"]),
        ({"cluster_kubeconfig": ""}, []),
        ({"cluster_owner": "ann", "fine_tuning_count": 3}, []),
        ({"cluster_provider": "openshift_ipi", "rehearsal_name": "mine", "cluster_name": "c"}, ["rehearsal_name"]),
        ({"cluster_provider": "existing", "cluster_kubeconfig": "/lab/kubeconfig"}, []),
    ],
)
def test_a_setting_that_the_chosen_provider_does_not_read_is_warned_about(
    given: dict[str, Any], warned: list[str]
) -> None:
    found = preflight(["settings"], **given).warnings_of_unused_settings()
    assert [one.split()[0] for one in found] == warned
    assert preflight(["report"], **given).warnings_of_unused_settings() == []


def test_a_load_that_can_not_be_planned_is_refused() -> None:
    given = {"scheduler_arrival": {"type": "poison"}, "scheduler_mode": "job", "scheduler_pods": 1}
    request = RequestedSettings("scheduler", (), (SettingsLayer("extra", "-e", given),))
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {"playbook_dir": "/"})
    found = resolve_settings.resolve_request(request, CATALOGUE, DEFAULTS, render)
    with pytest.raises(
        InputError, match=r"scheduler, point 001: unknown arrival type 'poison' .*did you mean 'poisson'"
    ):
        phase_preconditions.PreflightInput(request, found, CATALOGUE, render, PHASES, {}).check(None)


#: Paths that are made or written, or that are on another host.
NOT_READ = {
    "run_artifacts_dir",
    "ci_event_file",  # read by ci.yml before a run is opened
    "cluster_installer_dir",
    "cluster_agent_share_dir",
    "doctor_rbac_file",
    "new_project_root",
    "rehearsal_data_dir",
    "rehearsal_cache_dir",
    "results_history",  # checked with the other sources of past runs
    "results_audit_log",  # a cluster that is not there yet may write it
    "secrets_dir",  # checked with the secrets
}


#: Settings that are a path with some values only, as meta/files.yml says.
SOMETIMES = {"fine_tuning_dataset_transform"}


def test_every_path_is_known_as_one_that_must_be_there_or_not() -> None:
    paths = {name for name, one in CATALOGUE.settings.items() if one.is_path}
    of_secrets = {f"{name}_file" for name in CATALOGUE.secrets}
    of_roles = {f"{role}_kubeconfig" for role in CATALOGUE.roles}
    of_roles |= {"workload_driver_kubeconfig", "node_scaling_driver_kubeconfig"}
    assert paths - of_secrets - of_roles - NOT_READ == set(CATALOGUE.files) - SOMETIMES


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fine_tuning_namespace", "a/b"),
        ("fine_tuning_namespace", "A"),
        ("workload_driver_namespace", "x" * 64),
        ("rehearsal_name", "a/b"),
        ("rehearsal_name", "x" * 41),
    ],
)
def test_a_name_that_no_object_can_have_is_refused_with_its_source(name: str, value: str) -> None:
    with pytest.raises(InputError, match=rf"^{name}: '{value}' can't be the name of .* \(set by -e\)$"):
        check(PHASES, **{name: value})


def test_the_names_of_worker_clusters_are_checked_before_the_first_is_started() -> None:
    with pytest.raises(InputError, match=r"^rehearsal_name: 'x{32}-worker-1' can't be the name .* \(set by -e\)$"):
        check(PHASES, rehearsal_name="x" * 32, cluster_workers=1)
    check(PHASES, rehearsal_name="x" * 31, cluster_workers=9)
    with pytest.raises(InputError, match=r"x{31}-worker-10' can't be"):
        check(PHASES, rehearsal_name="x" * 31, cluster_workers=10)


@pytest.mark.parametrize("phases", [PHASES, ["cluster"]], ids=["run", "cluster"])
def test_workers_are_refused_where_none_can_be_started(phases: list[str]) -> None:
    with pytest.raises(InputError, match="cluster_workers is 2: only rehearsal clusters are started as workers"):
        check(phases, cluster_workers=2, cluster_provider="existing")


def test_a_name_that_is_known_only_during_the_run_is_not_refused() -> None:
    check(PHASES, fine_tuning_namespace="team-{{ run_id }}", rehearsal_name="mine")


@pytest.mark.parametrize("chosen", [PHASES, ["settings"]], ids=["run", "settings"])
def test_points_may_have_other_numbers_of_nodes_and_nothing_else_of_them(chosen: list[str]) -> None:
    check(chosen, node_scaling_instance_type="g5.2xlarge", matrix={"node_scaling_count": [1, 2]})
    check(chosen, matrix={"fake_gpu_nodes": [2, 3]})
    with pytest.raises(InputError, match="point 001 sets node_scaling_taint, which is decided before the first point"):
        check(chosen, matrix={"node_scaling_taint": ["a=b:NoSchedule"]})
    with pytest.raises(InputError, match="point 001 sets fake_gpu_pool, which is decided before the first point"):
        check(chosen, matrix={"fake_gpu_pool": ["mine"]})
    with pytest.raises(InputError, match="point 001 sets cluster_workers, which is decided before the first point"):
        check(chosen, matrix={"cluster_workers": [1, 2]})
    with pytest.raises(InputError, match="sets fake_gpu_nodes, and cluster_provider existing has no simulated nodes"):
        check(chosen, cluster_provider="existing", matrix={"fake_gpu_nodes": [2, 3]})


def test_points_have_the_kubernetes_of_their_run() -> None:
    other = {"control-plane": "1.35.4"}
    check(PHASES, rehearsal_versions=other, matrix={"fake_gpu_nodes": [2, 3]})
    check(PHASES, matrix={"rehearsal_versions": [{}, {"control-plane": "v1.36.3"}]})
    with pytest.raises(InputError, match="control-plane 1.35.4, and the cluster of the run 1.36.3 .*new cluster"):
        check(PHASES, matrix={"rehearsal_versions": [{}, other]})


def test_a_dotted_key_sets_the_version_of_a_component_without_a_preset_that_lists_it() -> None:
    kueue = {"rehearsal_components": ["kueue"], "matrix": {"rehearsal_versions.kueue": ["0.18.3", "0.19.2"]}}
    check(PHASES, **kueue)
    with pytest.raises(InputError, match=r"rehearsal_versions: 'kueu' is not a component .*did you mean 'kueue'"):
        check(PHASES, **{**kueue, "matrix": {"rehearsal_versions.kueu": ["0.18.3", "0.19.2"]}})


def test_a_dump_of_metrics_without_a_server_is_refused() -> None:
    with pytest.raises(InputError, match="metrics_dump is True: no server is named; set metrics_url"):
        check(PHASES, metrics_dump=True)
    check(PHASES, metrics_dump=True, metrics_route=True)
    check(PHASES, metrics_dump=True, metrics_url="http://127.0.0.1:9090")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"name": "a", "replicas": 1, "cluster": "here"}, "the cluster of a set is sutest or driver"),
        ({"replicas": 1}, "name or instance_type select the MachineSet"),
        ({"name": "a"}, "a set needs replicas, or users"),
        ({"name": "a", "users": 3}, "a set with users on sutest needs user"),
    ],
)
def test_a_set_of_nodes_that_lacks_something_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=f"node_scaling_sets is .*{why}"):
        check(PHASES, node_scaling_sets=[given])
    check(PHASES, node_scaling_sets=[{"name": "a", "users": 3, "cluster": "driver"}])


@pytest.mark.parametrize("phases", [["cluster", "prepare"], ["cluster", "prepare", "test"], ["settings"]])
def test_what_a_role_refuses_is_refused_before_a_cluster_is_acquired(phases: list[str]) -> None:
    with pytest.raises(InputError, match="rhoai_components.*did you mean 'dashboard'"):
        check(phases, stack=["rhoai"], rhoai_components=["dashbord"])


def test_for_a_cluster_alone_only_what_it_consists_of_is_checked() -> None:
    with pytest.raises(InputError, match="users_image is empty"):
        check(["cluster", "prepare"], project="users")
    check(["cluster"], project="users")
    with pytest.raises(InputError, match="node_scaling_sets is .*name or instance_type"):
        check(["cluster"], project="users", node_scaling_sets=[{"replicas": 3}])
    with pytest.raises(InputError, match="rehearsal_components is .*scheduler_mode needs the component"):
        check(["cluster"], project="scheduler", scheduler_mode="kueue", scheduler_pods=1, cluster_provider="rehearsal")


@pytest.mark.parametrize(
    ("project", "phases", "given", "refused"),
    [
        ("users", ["lease"], {"cluster_machines": "quads"}, True),
        ("users", ["lease", "cluster"], {"cluster_machines": "quads"}, True),
        ("fine_tuning", ["settings"], {"cluster_machines": "quads"}, True),
        ("users", ["cluster"], {"cluster_machines": "quads"}, False),
        ("users", ["lease", "cluster"], {}, False),
        ("users", PHASES, {"users_image": "image", "users_command": ["true"]}, False),
        ("lease", ["acquire", "wait", "inventory"], {}, True),
        ("lease", ["acquire", "wait", "inventory"], {"quads_lease_adopt": "cloud07"}, False),
        ("cluster", ["acquire"], {"cluster_machines": "quads"}, False),
    ],
)
def test_the_settings_of_a_lease_are_checked_only_for_a_lease(
    project: str, phases: list[str], given: dict[str, Any], refused: bool
) -> None:
    if not refused:
        check(phases, project=project, quads_lease_count=20, **given)
        return
    with pytest.raises(InputError, match="quads_lease_max_hosts is 10: .*quads_lease_split=true"):
        check(phases, project=project, quads_lease_count=20, **given)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"quads_lease_count": 2, "quads_lease_hosts": ["a"]}, "Omit quads_lease_count"),
        ({"quads_lease_count": 2, "quads_lease_min_count": 3}, "quads_lease_min_count is 3: it is more than"),
        ({"quads_lease_count": 11}, "quads_lease_max_hosts is 10: .*quads_lease_split=true"),
        ({"quads_lease_count": 11, "quads_lease_split": True, "quads_lease_vlan": 7}, "quads_lease_vlan can't apply"),
        ({"quads_lease_count": 2, "quads_lease_min_count": 2}, ""),
        ({"quads_lease_count": 2, "quads_lease_min_count": 3, "quads_lease_adopt": "cloud07"}, ""),
        ({}, ""),
    ],
)
def test_a_lease_that_no_server_can_grant_is_refused_by_the_names_of_its_settings(
    given: dict[str, object], error: str
) -> None:
    checks = checks_declared_by_roles.read_checks(
        phase_preconditions.ROOT / "roles" / "quads_lease" / "meta" / "checks.yml"
    )
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    found = checks_declared_by_roles.first_refused_setting(checks, {**DEFAULTS, **given}, render)
    assert (found is None) == (not error)
    assert found is None or re.search(error, found[1])

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is refused before a run begins: phases without a cluster or run, files that are not there."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._cluster import provider_existing, run_cluster_records
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import (
    collect_settings_layers,
    resolve_settings,
    settings_catalogue,
    settings_preflight,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.requested_settings import (
    RequestedSettings,
    SettingsLayer,
)

pytestmark = pytest.mark.usefixtures("ansible_plugins")  # defaults look up the environment
CATALOGUE = settings_catalogue.load(settings_preflight.ROOT)
DEFAULTS = collect_settings_layers.defaults(DataLoader(), CATALOGUE)
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]


def preflight(chosen: list[str], *layers: SettingsLayer, **given: Any) -> settings_preflight.Preflight:
    request = RequestedSettings("fine_tuning", (), (*layers, SettingsLayer("extra", "-e", given)))
    render = collect_settings_layers.renderer(Templar(loader=DataLoader()), {"playbook_dir": "/"})
    found = resolve_settings.effective(request, CATALOGUE, DEFAULTS, render)
    return settings_preflight.Preflight(request, found, CATALOGUE, render, chosen, {})


def check(chosen: list[str], run_dir: Path | None = None, *layers: SettingsLayer, **given: Any) -> None:
    preflight(chosen, *layers, **given).check(run_dir)


@pytest.mark.parametrize("phase", PHASES)
def test_each_phase_alone_runs_or_says_what_it_needs(phase: str) -> None:
    needs = {name: f"phase {name} needs a cluster, and this run has none" for name in ("prepare", "test")}
    needs |= {name: f"--tags {name} works on what an earlier run left" for name in settings_preflight.AFTERWARDS}
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
    run_cluster_records.update(
        tmp_path, ["sutest", "driver"], {"provider": "rehearsal", "state": state, "failure": "no quota"}
    )
    with pytest.raises(InputError, match=f"phase test needs a cluster, and {why}"):
        check(["test"], tmp_path)
    check(["report", "cleanup", "release"], tmp_path)
    check(["cluster", "prepare", "test"], tmp_path)


def test_a_run_with_its_cluster_goes_on(tmp_path: Path) -> None:
    run_cluster_records.update(tmp_path, ["sutest", "driver"], {"provider": "rehearsal", "state": "acquired"})
    check(["test"], tmp_path)


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
    monkeypatch.setattr(provider_existing, "REACH_TIMEOUT", 0.2)
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
    found = preflight(["settings"], **given).unused()
    assert [one.split()[0] for one in found] == warned
    assert preflight(["report"], **given).unused() == []


def test_a_load_that_can_not_be_planned_is_refused() -> None:
    request = RequestedSettings(
        "scheduler", (), (SettingsLayer("extra", "-e", {"scheduler_arrival": {"type": "poison"}}),)
    )
    render = collect_settings_layers.renderer(Templar(loader=DataLoader()), {"playbook_dir": "/"})
    found = resolve_settings.effective(request, CATALOGUE, DEFAULTS, render)
    with pytest.raises(InputError, match=r"scheduler, point 001: arrival type 'poison' .*did you mean 'poisson'"):
        settings_preflight.Preflight(request, found, CATALOGUE, render, PHASES, {}).check(None)


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
}


def test_every_path_is_known_as_one_that_must_be_there_or_not() -> None:
    paths = {name for name, one in CATALOGUE.settings.items() if one.is_path}
    of_secrets = {f"{name}_file" for name in CATALOGUE.secrets}
    of_roles = {f"{role}_kubeconfig" for role in CATALOGUE.roles} | {"workload_driver_kubeconfig"}
    assert paths - of_secrets - of_roles - NOT_READ == set(CATALOGUE.files)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"results_limits": {"time_to_schedule_p95": {"max": 1}}},
            r"KPI 'time_to_schedule_p95' \(from -e\) is not defined \(did you mean 'time_to_scheduled_p95'",
        ),
        ({"results_limits": {"makespan": {"max": "2 GB"}}}, r"makespan \(from -e\): max '2 GB' has another unit than"),
    ],
)
def test_a_wrong_limit_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(PHASES, None, **given)
    with pytest.raises(InputError, match=words):
        check(["settings"], None, **given)
    check(["cluster"], None, **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"results_level": 2},
            r"results_level is 2.0, and it must be a probability above 0 and at most 0.5 \(set by -e",
        ),
        ({"results_power": 1}, "results_power is 1.0, and it must be a probability between 0 and 1 "),
        ({"results_minimum_segment": 1}, "results_minimum_segment is 1, and it must be at least 2 runs"),
        ({"results_max_errors": 2}, "results_max_errors is 2.0, and it must be a share from 0 to 1"),
        ({"results_seed": -1}, "results_seed is -1, and it must be 0 or more"),
        ({"results_least": 5}, "results_least is 5, and it must be a share .* such as 0.05 for 5 %"),
        ({"results_least": "5 %"}, "results_least: '5 %' has another unit"),
        ({"results_least": {"makespan": "x"}}, "results_least: makespan: 'x' is no number"),
        ({"results_least": {"makespn": 0.1}}, r"results_least: KPI 'makespn' is not defined \(did you mean 'makespan'"),
        ({"results_judged": ["headlin"]}, r"KPI 'headlin' is not defined \(did you mean 'headline'\?\) \(set by -e"),
        ({"results_method": "group"}, r"results_method can't be 'group' \(did you mean 'groups'"),
        ({"results_correction": "holmes"}, r"results_correction can't be 'holmes' \(did you mean 'holm'"),
    ],
)
def test_a_wrong_setting_of_the_comparison_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(PHASES, None, **given)


def test_the_file_and_line_of_a_wrong_setting_is_named_and_every_point_is_checked() -> None:
    lab = SettingsLayer("overrides", "overrides", {"results_level": 0.7}, {"results_level": "x.yml:3"})
    with pytest.raises(InputError, match=r"results_level is 0.7, .* \(set by overrides, x.yml:3\)"):
        check(PHASES, None, lab)
    with pytest.raises(InputError, match="results_least is 1"):
        check(PHASES, None, matrix={"results_least": [0.1, 1]})


def test_settings_of_the_comparison_are_accepted() -> None:
    check(PHASES, None, results_judged=["headline", "time_to_*_p95"], results_level="0.05", results_least="0.1")
    check(
        PHASES,
        None,
        results_judged=["all"],
        results_least={"makespan": 0.1, "train_*": "0.2"},
        results_method="robust_z",
    )


def test_limits_of_common_and_project_figures_are_accepted() -> None:
    check(PHASES, None, results_limits={"makespan": {"max": "2 min 5 s"}, "train_loss": {"max": 3}})
    key = "results_limits.workloads_failed.max"
    check(PHASES, None, SettingsLayer("overrides", "overrides", {key: 5}))
    check(PHASES, None, SettingsLayer("overrides", "overrides", {"results_limits.makespan.max": "2 min"}))
    absent = SettingsLayer(
        "overrides", "overrides", {"results_limits.makspan.max": 1}, {"results_limits.makspan.max": "x:3"}
    )
    with pytest.raises(InputError, match=r"'makspan' \(from overrides, x:3\) is not defined \(did you mean 'makespan'"):
        check(PHASES, None, absent)
    wrong = SettingsLayer("overrides", "overrides", {key: "2 s"}, {key: "x.yml:3"})
    with pytest.raises(InputError, match=r"workloads_failed \(from overrides, x.yml:3\): max '2 s' has another unit"):
        check(PHASES, None, wrong)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"results_history": ["/no/such"]}, r"results_history: folder /no/such does not exist \(set by -e"),
        ({"results_history": ["opensearch"]}, "'opensearch' is named, but export_opensearch_url is empty"),
        ({"results_history": ["s3://"]}, "'s3://' is not s3://bucket/prefix"),
        ({"results_history": ["https://a/b"]}, "is neither a folder, s3://bucket/prefix nor opensearch"),
        ({"results_history": [__file__]}, "is no folder; name the folder that contains the run directories"),
        ({"results_history_runs": 0}, "results_history_runs is 0; it must be from 1 to 200"),
        ({"results_history_runs": 201}, "results_history_runs is 201"),
        (
            {"results_compare_on": ["ran.openshft"]},
            r"results_compare_on: 'ran.openshft' matches no label of this run \(did you mean 'ran.openshift'\?\) \(set",
        ),
        ({"results_ignore": ["fine_tuning_cnt"]}, r"results_ignore: .*did you mean 'fine_tuning_count'"),
        ({"matrix": {"results_history_runs": [5, 500]}}, "results_history_runs is 500"),
    ],
)
def test_a_wrong_history_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(PHASES, None, **given)
    check(["cluster"], None, **given)


def test_a_folder_with_another_name_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "nightly").mkdir()
    with pytest.raises(InputError, match=r"nigthly does not exist \(did you mean '.*/nightly'\?\)"):
        check(PHASES, None, results_history=[str(tmp_path / "nigthly")])


def test_a_history_is_accepted(tmp_path: Path) -> None:
    names = [
        "ran.openshift",
        "ran.operators.rhods-operator",
        "ran.images",
        "ran.nodes.gp*",
        "fine_tuning_image",
        "ran.*",
    ]
    address = {"export_opensearch_url": "https://search:9200"}
    sources = [str(tmp_path), "s3://results/nightly", "opensearch"]
    check(PHASES, None, results_history=sources, results_compare_on=names, results_ignore=["presets", "*"], **address)
    # the first run makes the folder that the second one reads
    check(PHASES, None, results_history=[str(tmp_path / "a")], run_artifacts_dir=str(tmp_path / "a" / "b"))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"fine_tuning_hyper_parameters": {"lora_alfa": 16}},
            r"'lora_alfa' is no hyper-parameter of flavour fms \(did you mean 'lora_alpha'\?\) \(set by -e\)",
        ),
        (
            {"matrix": {"fine_tuning_hyper_parameters.rr": [1, 2]}},
            "point 001: fine_tuning_hyper_parameters: 'rr' is no hyper-parameter",
        ),
        (
            {"fine_tuning_flavour": "ilab", "fine_tuning_hyper_parameters": {"num_train_epochs": 1}},
            "'num_train_epochs' is no hyper-parameter of flavour ilab",
        ),
        (
            {"fine_tuning_pod_count": 2, "fine_tuning_command": ["python", "/app/accelerate_launch.py"]},
            "fine_tuning_pod_count is 2: the launcher of the image, accelerate_launch.py",
        ),
        ({"fine_tuning_flavour": "ilab", "fine_tuning_gpus": 0}, "trains on GPUs only"),
        ({"fine_tuning_flavour": "ray"}, "flavour ray comes without a program"),
    ],
)
@pytest.mark.parametrize("chosen", [PHASES, ["settings"]], ids=["run", "settings"])
def test_what_a_flavour_cannot_train_is_refused(chosen: list[str], given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check(chosen, **given)


def test_a_flavour_brings_its_hyper_parameters_and_a_dotted_key_adds_one() -> None:
    added = SettingsLayer("overrides", "overrides", {"fine_tuning_hyper_parameters.lora_r": 4})
    found = preflight(PHASES, added, fine_tuning_flavour="ilab")
    found.check(None)
    values = found.found.settings["fine_tuning_hyper_parameters"]
    assert values["lora_r"] == 4 and values["num_epochs"] == 1
    check(PHASES, fine_tuning_hyper_parameters={"mine": 1}, fine_tuning_hyper_parameters_also=["mine"])
    check(PHASES, fine_tuning_pod_count=2)


def test_a_point_has_the_hyper_parameters_of_its_flavour_and_may_change_one() -> None:
    points = [
        {"fine_tuning_flavour": "ilab", "fine_tuning_hyper_parameters.lora_r": 8},
        {"fine_tuning_hyper_parameters.r": 8},
    ]
    found = preflight(PHASES, matrix_points=points)
    found.check(None)
    ilab, fms = (point.settings["fine_tuning_hyper_parameters"] for point in found.found.points)
    assert ilab["lora_r"] == fms["r"] == 8 and "num_epochs" in ilab and "num_train_epochs" in fms

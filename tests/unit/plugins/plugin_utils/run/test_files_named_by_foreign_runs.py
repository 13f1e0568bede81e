# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stranger's run directory reads and writes no file of this machine outside of it, and starts no real node."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import role_call_record, run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.open_run import SettingsSession
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

pytestmark = pytest.mark.usefixtures("ansible_plugins")
LOADER = DataLoader()
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]


def context_of(tmp_path: Path, tags: list[str], extra: dict[str, Any], **more: Any) -> SettingsContext:
    asked = {"run_artifacts_dir": str(tmp_path / "runs"), "trust_run_dir": True, **extra}
    variables = {"playbook_dir": str(tmp_path), "ansible_run_tags": tags, **asked, **more}
    return SettingsContext.of("fine_tuning", variables, asked, LOADER, Templar(loader=LOADER, variables=variables))


def begin(tmp_path: Path, tags: list[str], extra: dict[str, Any], **more: Any) -> dict[str, Any]:
    context = context_of(tmp_path, tags, extra, **more)
    templar = Templar(loader=LOADER, variables=context.variables)
    argv = ["/bin/ansible-playbook", "fine_tuning.yml"]
    return SettingsSession(context, PHASES, LOADER, templar, argv, {}, [].append).begin()


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A run whose session has ended."""
    directory = Path(begin(tmp_path, ["all"], {})["run_dir"])
    run_record.update_record(directory, lambda record: record["sessions"][0].update(began=0.0))
    return directory


def received(own: Path, values: dict[str, Any]) -> Path:
    """Return the run directory, unpacked elsewhere, in which somebody has changed the request."""
    directory = Path(shutil.copytree(own, own.parents[1] / "received", dirs_exist_ok=True))
    request = files.read_yaml(directory / "request.yml")
    [layer] = [layer for layer in request["layers"] if layer["kind"] == "extra"]
    layer["values"] |= values
    files.write_yaml(directory / "request.yml", request)
    return directory


@pytest.mark.parametrize(
    ("setting", "phase"),
    [
        ("results_template", "report"),
        ("results_kpi_files", "report"),
        ("results_history", "report"),
        ("metrics_query_files", "report"),
        ("export_ca_file", "export"),
        ("export_otlp_token_file", "export"),
        ("export_opensearch_password_file", "report"),  # of a history
        ("notify_github_token_file", "report"),
        ("notify_slack_webhook_file", "export"),
        ("secrets_dir", "report"),
        ("export_textfile", "export"),
        ("export_junit", "export"),
        ("fine_tuning_files", "test"),
    ],
)
def test_a_file_outside_is_used_only_if_the_session_names_it(
    tmp_path: Path, own: Path, setting: str, phase: str
) -> None:
    private = tmp_path / "private"
    private.write_text("canary")
    as_list = setting in ("results_kpi_files", "results_history", "metrics_query_files")
    value = [str(private)] if as_list else str(private)
    directory = received(own, {setting: value})
    before = (directory / "run.yml").read_text()
    with pytest.raises(InputError, match=f"{setting} names {private} of this machine.*give {setting} again by -e"):
        begin(tmp_path, [phase], {"run_dir": str(directory)})
    assert (directory / "run.yml").read_text() == before and private.read_text() == "canary"


def test_settings_of_a_received_run_are_shown(tmp_path: Path, own: Path) -> None:
    directory = received(own, {"export_textfile": str(tmp_path / "profile"), "rehearsal_nodes_real": 1})
    assert begin(tmp_path, ["settings"], {"run_dir": str(directory)})["run_dir"] == str(directory)


@pytest.mark.parametrize(
    "values",
    [
        {"matrix": {"results_template": ["{path}"]}},
        {"overrides": {"results_template": "{path}"}},
        {"export_textfile": "../private"},
        {"export_textfile": "points/../../private"},
    ],
)
def test_a_file_outside_is_recognised_however_it_is_named(tmp_path: Path, own: Path, values: dict[str, Any]) -> None:
    private = tmp_path / "private"
    private.write_text("canary")
    directory = received(own, json.loads(json.dumps(values).replace("{path}", str(private))))
    with pytest.raises(InputError, match="of this machine"):
        begin(tmp_path, ["report", "export"], {"run_dir": str(directory)})


def test_a_file_that_the_session_names_and_those_of_the_run_are_used(tmp_path: Path, own: Path) -> None:
    template = tmp_path / "page.j2"
    template.write_text("page")
    values = {"results_template": str(template), "export_junit": "junit-copy.xml"}
    directory = received(own, values)
    named = {"run_dir": str(directory), "results_template": str(template)}
    assert begin(tmp_path, ["report", "export"], named)["run_dir"] == str(directory)


def test_an_own_run_keeps_its_files(tmp_path: Path, own: Path) -> None:
    request = files.read_yaml(own / "request.yml")
    [layer] = [layer for layer in request["layers"] if layer["kind"] == "extra"]
    layer["values"]["export_textfile"] = str(tmp_path / "metrics.prom")
    files.write_yaml(own / "request.yml", request)
    assert begin(tmp_path, ["export"], {"run_dir": str(own)})["run_dir"] == str(own)


@pytest.mark.parametrize(
    "values",
    [
        {"rehearsal_nodes_real": 1},
        {"rehearsal_components": ["node"]},
        {"rehearsal_components": ["registry"]},
        {"overrides": {"rehearsal_nodes_real": 1}},
        {"matrix": {"rehearsal_components": [["training-image"]]}},
    ],
)
def test_a_real_node_is_started_only_if_the_session_says_so(tmp_path: Path, own: Path, values: dict[str, Any]) -> None:
    directory = received(own, values)
    with pytest.raises(InputError, match=r"starts a real node.*give rehearsal_nodes_real=1"):
        begin(tmp_path, ["test"], {"run_dir": str(directory)})


def test_a_role_call_of_a_received_run_writes_no_file_outside(tmp_path: Path, own: Path) -> None:
    call = f"step_role: perfscale.seatrial.export\nstep_entry: main\nexport_textfile: {tmp_path}/profile\n"
    directory = received(own, {})
    for top in (own, directory):
        (top / "001__export__main").mkdir()
        (top / "001__export__main" / "arguments.yml").write_text(call)
    known = context_of(tmp_path, ["all"], {})
    assert role_call_record.check_recorded_call(own / "001__export__main", known)["entry"] == "main"
    with pytest.raises(InputError, match="export_textfile names .*profile of this machine"):
        role_call_record.check_recorded_call(directory / "001__export__main", known)


@pytest.mark.parametrize("name", ["ansible.log", "points/001/timeline.csv"])
def test_nothing_is_written_through_a_link(tmp_path: Path, own: Path, name: str) -> None:
    directory = received(own, {})
    (directory / name).parent.mkdir(parents=True, exist_ok=True)
    (directory / name).unlink(missing_ok=True)
    (directory / name).symlink_to(tmp_path / "private")
    with pytest.raises(InputError, match=f"{name} is a symbolic link"):
        begin(tmp_path, ["report"], {"run_dir": str(directory)})
    assert begin(tmp_path, ["settings"], {"run_dir": str(directory)})["run_dir"] == str(directory)


def test_nothing_is_written_into_a_pipe(tmp_path: Path, own: Path) -> None:
    directory = received(own, {})
    (directory / "ansible.log").unlink(missing_ok=True)
    os.mkfifo(directory / "ansible.log")
    with pytest.raises(InputError, match=r"ansible.log is no file"):
        begin(tmp_path, ["report"], {"run_dir": str(directory)})


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("monitoring.json", {"before": "mine", "wanted": "enableUserWorkload: true\n", "existed": True}),
        ("registry.json", {"mirrors": []}),
        ("scaling.json", {"sets": [{"name": "worker-a", "replicas": 0}]}),
        ("scaling-driver.json", {"sets": []}),
        ("points/001/elsewhere.json", {"state": "started", "host": "localhost", "root": "/home"}),
        (
            "points/001/load/elsewhere.json",
            {"state": "fetched", "host": "driver_pod", "root": "n", "collect": {}, "x": 1},
        ),
        ("points/001/elsewhere.json", []),
        ("lease.quads.yml", {"plugin": "perfscale.seatrial.quads"}),
    ],
)
@pytest.mark.parametrize("tags", [["release"], ["cluster", "test"]])
def test_what_a_stranger_says_was_changed_or_runs_elsewhere_is_not_undone(
    tmp_path: Path, own: Path, file: str, content: Any, tags: list[str]
) -> None:
    """The hosts, folders, objects and former values in these files decide what is deleted and changed."""
    directory = received(own, {})
    for top in (own, directory):
        (top / file).parent.mkdir(parents=True, exist_ok=True)
        (top / file).write_text(json.dumps(content if content != [] or top != own else {"state": "fetched"}))
    refusal = f"{file} (is damaged|(says|is an inventory).*(copied, moved or received))"
    with pytest.raises((InputError, DataError), match=refusal):
        begin(tmp_path, tags, {"run_dir": str(directory)})
    assert begin(tmp_path, ["report"], {"run_dir": str(directory)})["run_dir"] == str(directory)
    assert begin(tmp_path, tags, {"run_dir": str(own)})["run_dir"] == str(own)


def test_the_inventory_of_a_lease_is_used_if_the_session_names_it(tmp_path: Path, own: Path) -> None:
    directory = received(own, {})
    (directory / "lease.quads.yml").write_text("plugin: perfscale.seatrial.quads")
    (directory / "points" / "001" / "elsewhere.json").write_text('{"state": "fetched"}')
    extra = {"run_dir": str(directory), "cluster_agent_inventory": str(directory / "lease.quads.yml")}
    assert begin(tmp_path, ["release"], extra)["run_dir"] == str(directory)


def test_an_inventory_in_the_directory_of_a_stranger_is_not_read(tmp_path: Path, own: Path) -> None:
    """Ansible runs an inventory that is executable, and renders its templates."""
    script = received(own, {}) / "hosts"
    script.write_text("#!/bin/sh")
    directory = received(own, {"cluster_provider": "openshift_agent", "cluster_agent_inventory": str(script)})
    with pytest.raises(InputError, match="cluster_agent_inventory names .*/hosts of this machine"):
        begin(tmp_path, ["cluster"], {"run_dir": str(directory)})


@pytest.mark.parametrize("setting", ["cluster_agent_bastion", "workload_run_on"])
def test_a_host_is_used_only_if_the_session_names_it(tmp_path: Path, own: Path, setting: str) -> None:
    directory = received(own, {setting: "-oProxyCommand=true"})
    for tags in (["test"], ["cleanup"]):
        with pytest.raises(InputError, match=f"{setting} names the host -oProxyCommand=true.*{setting} again by -e"):
            begin(tmp_path, tags, {"run_dir": str(directory)})
    named = {"run_dir": str(directory), setting: "-oProxyCommand=true"}
    assert begin(tmp_path, ["cleanup"], named)["run_dir"] == str(directory)


def test_a_further_attempt_uses_no_server_and_no_file_that_only_the_file_of_its_point_names(
    tmp_path: Path, own: Path
) -> None:
    """That file is loaded as variables, and the request alone is checked."""
    evil = {
        "storage_hub_url": "https://evil.example",
        "workload_run_on": "evil",
        "cluster_kubeconfig": "kc",
        "rehearsal_nodes_real": 1,
        "fine_tuning_files": ["/etc/passwd"],
        "fine_tuning_count": 77,
    }
    directory = received(own, {})
    for top in (own, directory):
        point = top / "points" / "001"
        (point / "point.yml").write_text((point / "point.yml").read_text().replace("planned", "passed"))
        values = files.read_yaml(point / "settings.yml") | evil
        (point / "settings.yml").write_text(json.dumps(values).replace("{", "---\n{", 1))
        begin(tmp_path, ["cluster", "test"], {"run_dir": str(top)})
        kept = files.read_yaml(point / "settings.yml")
        assert kept["fine_tuning_count"] == 77
        assert [name for name in evil if kept[name] == evil[name]] == (
            list(evil) if top == own else ["fine_tuning_count"]
        )


@pytest.mark.parametrize("name", ["../../mine", "..", "", "a/b", "a\nb"])
def test_a_name_of_a_run_or_point_leads_to_no_other_folder(tmp_path: Path, own: Path, name: str) -> None:
    """Folders of the load, of its clients and of a rehearsal cluster are named after them."""
    (own / "001__cleanup__main").mkdir()
    arguments = own / "001__cleanup__main" / "arguments.yml"
    call = {"step_role": "perfscale.seatrial.cleanup", "step_entry": "main"}
    for key in ("run_id", "run_point"):
        arguments.write_text("---\n" + json.dumps({**call, key: name}))
        with pytest.raises(InputError, match=f"arguments.yml: {key} .* is no name of a run or of a point"):
            role_call_record.check_recorded_call(arguments.parent, context_of(tmp_path, ["all"], {}))
    document = files.read_yaml(own / "run.yml")
    (own / "run.yml").write_text("---\n" + json.dumps({**document, "id": name}))
    with pytest.raises(InputError, match="run.yml: id .* is no name of a run or of a point"):
        begin(tmp_path, ["cleanup"], {"run_dir": str(own)})


def test_a_template_in_the_directory_of_a_stranger_is_not_rendered(tmp_path: Path, own: Path) -> None:
    template = received(own, {}) / "report.html.j2"
    template.write_text("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
    directory = received(own, {"results_template": str(template)})
    with pytest.raises(InputError, match="results_template names .*/report.html.j2 of this machine"):
        begin(tmp_path, ["report"], {"run_dir": str(directory)})
    named = {"run_dir": str(directory), "results_template": str(template)}
    assert begin(tmp_path, ["report"], named)["run_dir"] == str(directory)


@pytest.mark.parametrize("name", ["default", "of-another-run"])
def test_a_rehearsal_cluster_is_used_only_if_the_session_names_it(tmp_path: Path, own: Path, name: str) -> None:
    directory = received(own, {"rehearsal_name": name})
    with pytest.raises(InputError, match=f"rehearsal_name names the rehearsal cluster {name} of this machine"):
        begin(tmp_path, ["cleanup"], {"run_dir": str(directory)})
    named = {"run_dir": str(directory), "rehearsal_name": name}
    assert begin(tmp_path, ["cleanup"], named)["run_dir"] == str(directory)


@pytest.mark.parametrize("name", ["default", "of-another-run"])
def test_a_recorded_call_removes_no_rehearsal_cluster_that_the_session_does_not_name(
    tmp_path: Path, own: Path, name: str
) -> None:
    step = received(own, {}) / "010__rehearsal__absent"
    step.mkdir()
    call = {"step_role": "perfscale.seatrial.rehearsal", "step_entry": "absent", "rehearsal_force": True}
    files.write_yaml(step / role_call_record.ARGUMENTS, {**call, "rehearsal_name": name})
    context = context_of(tmp_path, ["all"], {})
    with pytest.raises(InputError, match=f"rehearsal_name names the rehearsal cluster {name} of this machine"):
        role_call_record.check_recorded_call(step, context)
    role_call_record.check_recorded_call(step, context_of(tmp_path, ["all"], {"rehearsal_name": name}))

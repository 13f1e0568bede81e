# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig that only a stranger's run directory names is not used, so its program is not run."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import extra_vars_arguments, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import (
    foreign_kubeconfigs,
    role_call_record,
    run_record,
)
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.open_run import SettingsSession
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

pytestmark = pytest.mark.usefixtures("ansible_plugins")
LOADER = DataLoader()
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]
GIVES_BACK = ["cleanup", "release"]


def context_of(tmp_path: Path, tags: list[str], extra: dict[str, Any], **more: Any) -> SettingsContext:
    given = {"run_artifacts_dir": str(tmp_path / "runs"), "trust_run_dir": True, **extra}
    variables = {"playbook_dir": str(tmp_path), "ansible_run_tags": tags, **given, **more}
    return SettingsContext.of("fine_tuning", variables, given, LOADER, Templar(loader=LOADER, variables=variables))


def begin(
    tmp_path: Path, tags: list[str], extra: dict[str, Any], phases: list[str] = PHASES, **more: Any
) -> dict[str, Any]:
    context = context_of(tmp_path, tags, extra, **more)
    templar = Templar(loader=LOADER, variables=context.variables)
    argv = ["/bin/ansible-playbook", "fine_tuning.yml"]
    return SettingsSession(context, phases, LOADER, templar, argv, {}, [].append).begin()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig beside the run directories, whose program leaves the file ``proof``."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    command = {"command": "sh", "args": ["-c", f"touch {tmp_path}/proof"], "interactiveMode": "Never"}
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **command}}
    path = tmp_path / "kc"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "c", "user": user}],
    }
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def own(tmp_path: Path, program: Path) -> Path:
    """A run whose session has ended, and whose cluster.yml names the kubeconfig."""
    directory = Path(begin(tmp_path, ["all"], {})["run_dir"])
    run_record.update_record(directory, lambda record: record["sessions"][0].update(began=0.0))
    record = {"provider": "existing", "state": "acquired", "kubeconfig": str(program), "api_host": "127.0.0.1"}
    clusters_of_run.update_host_records(directory, ["sutest", "driver"], record)
    return directory


@pytest.fixture
def received(tmp_path: Path, own: Path) -> Path:
    """The run directory, unpacked elsewhere."""
    return Path(shutil.copytree(own, tmp_path / "received"))


@pytest.mark.parametrize("tags", [GIVES_BACK, ["cleanup"], ["prepare", "test"]])
def test_a_recorded_kubeconfig_of_a_received_run_is_refused(tmp_path: Path, received: Path, tags: list[str]) -> None:
    before = (received / "run.yml").read_text()
    with pytest.raises(InputError, match="kubeconfig names the kubeconfig .*/kc, and .* used only if you name it"):
        begin(tmp_path, tags, {"run_dir": str(received)})
    assert (received / "run.yml").read_text() == before and not (tmp_path / "proof").exists()


def test_the_kubeconfig_of_a_stranger_is_one_word_in_the_command_that_is_proposed(
    tmp_path: Path, received: Path
) -> None:
    path = str(shutil.copy(received.parent / "kc", tmp_path / "kc; touch proof; '{{ 7 * 7 }}'"))
    record = {"provider": "existing", "state": "acquired", "kubeconfig": path, "api_host": "127.0.0.1"}
    clusters_of_run.update_host_records(received, ["sutest", "driver"], record)
    with pytest.raises(InputError, match="used only if you name it") as refused:
        begin(tmp_path, GIVES_BACK, {"run_dir": str(received)})
    words = shlex.split(str(refused.value).partition("give ")[2].partition(", or set")[0])
    assert words == ["-e", f'{{"cluster_kubeconfig": !unsafe {json.dumps(path)}}}']


def test_a_received_run_is_reported_without_its_cluster(tmp_path: Path, received: Path) -> None:
    extra = {"run_dir": str(received)}
    assert begin(tmp_path, ["report", "export"], extra)["run_dir"] == str(received)
    run_record.update_record(received, lambda record: record["sessions"][-1].update(began=0.0))
    with pytest.raises(InputError, match="used only if you name it"):
        begin(tmp_path, ["report"], {**extra, "metrics_route": True})


@pytest.mark.parametrize("host", ["sutest", "x/../../lock"])
def test_the_end_of_a_report_of_a_received_run_releases_no_lock(tmp_path: Path, received: Path, host: str) -> None:
    """It would be released with the kubeconfig of cluster.yml."""
    document = files.read_yaml(received / "cluster.yml")
    document["clusters"][host] = document["clusters"]["sutest"]
    (received / "cluster.yml").write_text(json.dumps(document))
    (received / "lock-x").mkdir()
    lock = Path(f"{received}/lock-{host}.json")
    lock.parent.mkdir(exist_ok=True)
    lock.write_text(json.dumps({"schema": "lock/1", "cluster": host, "state": "released", "lost": ""}))
    assert begin(tmp_path, ["report"], {"run_dir": str(received)})["run_dir"] == str(received)
    run_record.update_record(received, lambda record: record["sessions"][-1].update(began=0.0))
    for content in ({"schema": "lock/1", "state": "held"}, {"schema": "lock/1"}, []):
        lock.write_text(json.dumps(content))
        with pytest.raises(InputError, match="kubeconfig names the kubeconfig .*/kc, and .* used only if you name it"):
            begin(tmp_path, ["report"], {"run_dir": str(received)})


def test_a_kubeconfig_that_the_session_names_is_used(
    tmp_path: Path, received: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {"run_dir": str(received)}

    def accepted(extra: dict[str, Any], **more: Any) -> bool:
        run_record.update_record(received, lambda record: record["sessions"][-1].update(began=0.0))
        return begin(tmp_path, GIVES_BACK, extra, **more)["run_dir"] == str(received)

    monkeypatch.setenv("KUBECONFIG", f"/other{os.pathsep}{program}")
    assert accepted(extra)
    monkeypatch.delenv("KUBECONFIG")
    assert accepted(extra, cluster_kubeconfig=str(program))
    assert accepted(extra, hostvars={"driver": {"cluster_kubeconfig": str(program)}})
    assert accepted({**extra, "cluster_kubeconfig": str(program)})  # last: the request keeps it


@pytest.mark.parametrize("where", ["request.yml", "cluster.yml"])
def test_another_context_of_the_users_kubeconfig_is_used_only_if_the_session_names_it(
    tmp_path: Path, received: Path, program: Path, where: str
) -> None:
    document = files.read_yaml(received / where)
    if where == "request.yml":
        [layer] = [layer for layer in document["layers"] if layer["kind"] == "extra"]
        layer["values"] |= {"cluster_provider": "existing", "cluster_context": "production"}
    else:
        document["clusters"]["sutest"]["context"] = "production"
    (received / where).write_text("---\n" + json.dumps(document))
    extra = {"run_dir": str(received), "cluster_kubeconfig": str(program)}
    with pytest.raises(InputError, match="names the context production of a kubeconfig.*cluster_context"):
        begin(tmp_path, GIVES_BACK, extra)
    extra["cluster_context"] = "production"
    begin(tmp_path, GIVES_BACK, extra)
    given = (received / "GIVE_BACK").read_text()
    assert '"cluster_context": "production"' in given and f'"cluster_kubeconfig": "{program}"' in given


def test_an_own_run_gives_back_with_its_recorded_kubeconfig(tmp_path: Path, own: Path) -> None:
    assert begin(tmp_path, GIVES_BACK, {"run_dir": str(own)})["run_dir"] == str(own)


@pytest.mark.parametrize("setting", ["cluster_kubeconfig", "workload_kubeconfig"])
def test_a_kubeconfig_in_the_request_of_a_received_run_is_refused(
    tmp_path: Path, received: Path, program: Path, setting: str
) -> None:
    (received / "cluster.yml").unlink()
    request = files.read_yaml(received / "request.yml")
    [given] = [layer for layer in request["layers"] if layer["kind"] == "extra"]
    given["values"] |= {"cluster_provider": "existing", setting: str(program)}
    files.write_yaml(received / "request.yml", request)
    for tags in (["all"], ["settings"]):
        with pytest.raises(InputError, match=f"{setting} names the kubeconfig"):
            begin(tmp_path, tags, {"run_dir": str(received)})
    assert not (tmp_path / "proof").exists()


def test_a_role_call_of_a_received_run_uses_no_kubeconfig_of_it(tmp_path: Path, own: Path, received: Path) -> None:
    for directory in (own, received):
        step = directory / "001__cleanup__main"
        step.mkdir()
        (step / "arguments.yml").write_text("step_role: perfscale.seatrial.cleanup\nstep_entry: main\n")
    known = context_of(tmp_path, ["all"], {})
    assert role_call_record.check_recorded_call(own / "001__cleanup__main", known)["entry"] == "main"
    with pytest.raises(InputError, match="used only if you name it"):
        role_call_record.check_recorded_call(received / "001__cleanup__main", known)


def test_a_lost_kubeconfig_of_a_received_run_is_not_replaced_by_one_that_its_settings_name(
    own: Path, received: Path, program: Path
) -> None:
    variables = {"cluster_kubeconfig": str(program)}
    for directory, expected in ((own, str(program)), (received, "")):
        access = foreign_kubeconfigs.create_trusted_access_lookup(str(directory), variables, {}, lambda one: one)
        assert access("sutest").run["cluster_kubeconfig"] == expected
    extra = foreign_kubeconfigs.create_trusted_access_lookup(str(received), {}, variables, lambda one: one)("sutest")
    assert extra.extra["cluster_kubeconfig"] == str(program)


def test_a_run_directory_that_says_that_it_was_opened_where_it_lies_is_foreign(tmp_path: Path, own: Path) -> None:
    """Who sends an archive may know where it will be unpacked."""
    foreign = Path(shutil.copytree(own, tmp_path / "predicted"))
    run_record.update_record(foreign, lambda record: record.update(directory=str(foreign)))
    assert foreign_kubeconfigs.is_own_uncopied_directory(own) and not foreign_kubeconfigs.is_own_uncopied_directory(
        foreign
    )
    with pytest.raises(InputError, match="used only if you name it"):
        begin(tmp_path, GIVES_BACK, {"run_dir": str(foreign)})


AGENT = {
    "provider": "openshift_agent",
    "state": "acquired",
    "owned": True,
    "name": "lab",
    "provider_data": {
        "settings": {"cluster_agent_inventory": "/tmp/x", "cluster_agent_control_plane_group": "all"},
        "machines": [{"name": "m", "bmc_address": "192.0.2.1"}],
    },
}


@pytest.mark.parametrize("tags", [GIVES_BACK, ["release"], ["prepare", "test"]])
def test_a_cluster_that_only_a_received_run_names_is_not_released(tmp_path: Path, own: Path, tags: list[str]) -> None:
    clusters_of_run.update_host_records(own, ["sutest", "driver"], {**AGENT, "kubeconfig": ""})
    received = Path(shutil.copytree(own, tmp_path / "received"))
    with pytest.raises(InputError, match=r"names the cluster 'lab', .* give -e .*cluster_name.*lab"):
        begin(tmp_path, tags, {"run_dir": str(received)})
    with pytest.raises(InputError, match="names the cluster 'lab'"):
        begin(tmp_path, tags, {"run_dir": str(received), "cluster_name": "other"})
    foreign_kubeconfigs.refuse_foreign_holdings(received, {"cluster_name": "lab"})
    if tags == GIVES_BACK:
        assert begin(tmp_path, tags, {"run_dir": str(received), "cluster_name": "lab"})["run_dir"] == str(received)
        assert begin(tmp_path, tags, {"run_dir": str(own)})["run_dir"] == str(own)


def test_a_rehearsal_cluster_that_only_a_received_run_names_is_not_removed(
    tmp_path: Path, received: Path, program: Path
) -> None:
    for host, name in (("sutest", "mine"), ("worker-1", "mine-worker-1"), ("worker-12", "mine-worker-12")):
        record = {"provider": "rehearsal", "state": "acquired", "owned": True, "name": name, "kubeconfig": ""}
        clusters_of_run.update_host_records(received, [host], record)
    extra = {"run_dir": str(received), "cluster_kubeconfig": str(program)}
    with pytest.raises(
        InputError, match="'mine', .*'mine-worker-1', .*'mine-worker-12'.* give -e .*rehearsal_name.*mine"
    ):
        begin(tmp_path, GIVES_BACK, extra)
    with pytest.raises(InputError, match="names the cluster 'mine'"):
        foreign_kubeconfigs.refuse_foreign_holdings(received, {"rehearsal_name": "mine-worker-1"})
    assert begin(tmp_path, GIVES_BACK, {**extra, "rehearsal_name": "mine"})["run_dir"] == str(received)
    assert '"rehearsal_name": "mine"' in (received / "GIVE_BACK").read_text()


def test_a_lease_that_only_a_received_run_names_is_not_ended(tmp_path: Path, received: Path, program: Path) -> None:
    (received / "lease.yml").write_text("schema: lease/1\nlease_id: t1121-abcdef\nstate: held\n")
    extra = {"run_dir": str(received), "cluster_kubeconfig": str(program)}
    with pytest.raises(InputError, match="names the lease 't1121-abcdef', .* give -e .*quads_lease_id"):
        begin(tmp_path, GIVES_BACK, extra)
    foreign_kubeconfigs.refuse_foreign_holdings(received, {"quads_lease_id": "t1121-abcdef"})
    # The release of a lease that is recorded as released asks the server again.
    (received / "lease.yml").write_text("schema: lease/1\nlease_id: t1121-abcdef\nstate: released\n")
    with pytest.raises(InputError, match="names the lease 't1121-abcdef'"):
        begin(tmp_path, GIVES_BACK, extra)
    assert begin(tmp_path, GIVES_BACK, {**extra, "quads_lease_id": "t1121-abcdef"})["run_dir"] == str(received)


CHOSEN = {
    "cluster_release_named": "lab",
    "cluster_metadata_store": "s3://theirs/x",
    "quads_lease_api_url": "https://192.0.2.1",
    "quads_lease_id": "t1121-victim",
}


@pytest.mark.parametrize("setting", CHOSEN)
def test_a_received_request_does_not_choose_what_a_release_acts_on(
    tmp_path: Path, own: Path, program: Path, setting: str
) -> None:
    request = files.read_yaml(own / "request.yml")
    [given] = [layer for layer in request["layers"] if layer["kind"] == "extra"]
    given["values"] |= {setting: CHOSEN[setting]}
    files.write_yaml(own / "request.yml", request)
    received = Path(shutil.copytree(own, tmp_path / "received"))
    extra = {"run_dir": str(received), "cluster_kubeconfig": str(program)}
    with pytest.raises(InputError, match=f"request.yml names the .*'{CHOSEN[setting]}', .* give -e .*{setting}"):
        begin(tmp_path, GIVES_BACK, extra)
    trees = [("request.yml", {setting: CHOSEN[setting]})]
    with pytest.raises(InputError, match=setting):
        foreign_kubeconfigs.refuse_foreign_holdings(received, {setting: "other"}, trees)
    foreign_kubeconfigs.refuse_foreign_holdings(received, {setting: CHOSEN[setting]}, trees)


def test_a_received_role_call_does_not_choose_what_a_release_acts_on(received: Path, tmp_path: Path) -> None:
    (received / "cluster.yml").unlink()
    step = received / "001__cluster__release"
    step.mkdir()
    call = "step_role: perfscale.seatrial.cluster\nstep_entry: release\n"
    (step / "arguments.yml").write_text(f"{call}cluster_release_named: lab\n")
    with pytest.raises(InputError, match="names the cluster_release_named 'lab'"):
        role_call_record.check_recorded_call(step, context_of(tmp_path, ["all"], {}))
    known = context_of(tmp_path, ["all"], {"cluster_release_named": "lab"})
    assert role_call_record.check_recorded_call(step, known)["entry"] == "release"


def test_a_received_call_of_a_lease_releases_none_by_the_id_of_the_run(received: Path, tmp_path: Path) -> None:
    (received / "cluster.yml").unlink()
    run_record.update_record(received, lambda record: record.update(id="t1121-victim"))
    step = received / "001__quads_lease__release"
    step.mkdir()
    call = "step_role: perfscale.seatrial.quads_lease\nstep_entry: release\nrun_id: t1121-victim\n"
    (step / "arguments.yml").write_text(call)
    with pytest.raises(InputError, match="run.yml names the lease 't1121-victim'"):
        role_call_record.check_recorded_call(step, context_of(tmp_path, ["all"], {}))
    (step / "arguments.yml").write_text(f"{call}quads_lease_id: t1121-another\n")
    with pytest.raises(InputError, match="quads_lease__release names the lease 't1121-another'"):
        role_call_record.check_recorded_call(step, context_of(tmp_path, ["all"], {"quads_lease_id": "t1121-victim"}))
    (step / "arguments.yml").write_text(call)
    known = context_of(tmp_path, ["all"], {"quads_lease_id": "t1121-victim"})
    assert role_call_record.check_recorded_call(step, known)["entry"] == "release"


@pytest.mark.parametrize("role", ["quads_lease", "cluster"])
def test_a_received_call_does_not_release_what_other_runs_hold(received: Path, tmp_path: Path, role: str) -> None:
    (received / "cluster.yml").unlink()
    step = received / f"001__{role}__reap"
    step.mkdir()
    call = f"step_role: perfscale.seatrial.{role}\nstep_entry: reap\n{role}_reap_dry_run: false\n"
    (step / "arguments.yml").write_text(call)
    with pytest.raises(InputError, match="do not choose which leases and clusters .* Run --tags reap without it"):
        role_call_record.check_recorded_call(step, context_of(tmp_path, ["all"], {"quads_lease_id": "t1121-victim"}))


def test_a_received_run_does_not_choose_what_a_reap_releases(tmp_path: Path, received: Path, program: Path) -> None:
    extra = {"run_dir": str(received), "cluster_kubeconfig": str(program)}
    with pytest.raises(InputError, match="Run --tags reap without it"):
        begin(tmp_path, ["reap"], extra, phases=[*PHASES, "reap"])


def test_one_name_releases_both_clusters_of_a_moved_run_and_the_new_command_repeats_it(
    tmp_path: Path, own: Path
) -> None:
    for host, name in (("sutest", "lab"), ("driver", "lab-driver")):
        clusters_of_run.update_host_records(own, [host], {**AGENT, "kubeconfig": "", "name": name})
    (own / "lease.yml").write_text("schema: lease/1\nlease_id: t1121-abcdef\nstate: held\n")
    moved = Path(shutil.move(own, tmp_path / "moved"))
    with pytest.raises(InputError, match="cluster 'lab', .*cluster 'lab-driver', .*lease 't1121-abcdef'") as refused:
        begin(tmp_path, GIVES_BACK, {"run_dir": str(moved)})
    named = {"cluster_name": "lab", "quads_lease_id": "t1121-abcdef"}
    assert str(refused.value).endswith(extra_vars_arguments.extra_vars_shell_text(named))
    with pytest.raises(InputError, match="names the cluster 'lab'"):
        foreign_kubeconfigs.refuse_foreign_holdings(moved, {**named, "cluster_name": "lab-driver"})
    assert begin(tmp_path, GIVES_BACK, {"run_dir": str(moved), **named})["run_dir"] == str(moved)
    give_back = (moved / "GIVE_BACK").read_text()
    assert json.dumps({**named, "trust_run_dir": True}) in give_back and f'"run_dir": "{moved}"' in give_back

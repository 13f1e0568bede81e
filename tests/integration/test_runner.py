"""Started by ansible-runner as AWX starts a job, with the variables of its templates. docs/awx.md describes it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ansible_runner
import awx_survey_rules
import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from playbook import ROOT, environment, run_dirs
from processes import open_ports, ports_of, traces


def job(
    folder: Path,
    tags: str,
    extra: dict[str, Any],
    env: dict[str, str] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    project: str = "fine_tuning",
    timeout: int = 0,
    number: int = 7,
    workflow: int = 0,
) -> ansible_runner.Runner:
    """Run the playbook of a project as a job template would, until it ends, or ``cancelled`` says that it was.

    timeout: seconds after which the job is killed; 0 means never. number, workflow: of the job and of its workflow job.
    """
    folder.mkdir()
    (folder / "project").symlink_to(ROOT)
    told = {name: value for name, value in environment(folder).items() if name != "ARTIFACT_DIR"}
    # AWX puts the folder of what it synced before the paths of ansible.cfg.
    told["ANSIBLE_COLLECTIONS_PATH"] = f"{folder}/requirements_collections:{ROOT}/collections"
    return ansible_runner.run(
        private_data_dir=str(folder),
        playbook=f"playbooks/{project}.yml",
        inventory=str(ROOT / "inventories" / "localhost"),
        extravars={**awx_survey_rules.job_variables(number, workflow), **extra},
        envvars={**told, **(env or {})},
        cmdline=f"--tags {tags}" if tags else None,
        cancel_callback=cancelled,
        settings={"job_timeout": timeout} if timeout else {},
        quiet=True,
    )


def said(runner: ansible_runner.Runner) -> str:
    """What the job has printed."""
    return runner.stdout.read()


def test_a_survey_gives_lists_and_texts(tmp_path: Path) -> None:
    extra = {"preset": ["light", "keep"], "fine_tuning_count": "3", "run_artifacts_dir": str(tmp_path / "runs")}
    extra["rehearsal_cache_dir"] = str(tmp_path / "programs")
    done = job(tmp_path / "job", "settings", extra, {"ANSIBLE_STDOUT_CALLBACK": "perfscale.seatrial.quiet"})
    assert (done.status, done.rc) == ("successful", 0), said(done)
    assert "TASK [" not in said(done)
    assert re.search(r"fine_tuning_count +3 +-e", said(done)) and "preset keep" in said(done)
    refused = job(tmp_path / "other", "settings", {**extra, "fine_tuning_count": "three"})
    assert refused.status == "failed" and 'fine_tuning_count is a whole number, and "three" is not' in said(refused)
    assert not run_dirs(tmp_path / "runs"), "to look at settings makes no run"


def answered(folder: Path, **answers: str) -> str:
    """A file with text answers as AWX writes them."""
    path = folder / "answers"
    path.write_text("".join(f"!unsafe '{name}': !unsafe '{text}'\n" for name, text in answers.items()))
    return f"-e @{path}"


def test_text_answers_stay_texts_and_an_empty_one_is_none(tmp_path: Path) -> None:
    extra = {"run_artifacts_dir": str(tmp_path / "runs"), "rehearsal_cache_dir": str(tmp_path / "programs")}
    texts = answered(tmp_path, fine_tuning_cpu="", fine_tuning_priority_class="007", fine_tuning_service_account="yes")
    quiet = {"ANSIBLE_STDOUT_CALLBACK": "perfscale.seatrial.quiet"}
    done = job(tmp_path / "job", f"settings {texts}", extra, quiet)
    assert (done.status, done.rc) == ("successful", 0), said(done)
    assert re.search(r"fine_tuning_priority_class +007 +-e", said(done)), said(done)
    assert re.search(r"fine_tuning_service_account +yes +-e", said(done)) and "fine_tuning_cpu" not in said(done)


def test_a_job_that_gives_back_without_the_number_of_a_run_fails_and_asks_for_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    extra = {**templates(), "run_artifacts_dir": str(runs), "cluster_keep": False}
    forgotten = job(tmp_path / "job", "cleanup,release", extra, number=27)
    assert forgotten.status == "failed" and "run_name '27' is the number of this job itself" in said(forgotten)
    del extra["run_name"]
    empty = job(tmp_path / "empty", f"cleanup,release {answered(tmp_path, run_name='')}", extra, number=28)
    assert empty.status == "failed" and "no run is named: answer run_name with the number" in said(empty), said(empty)


def test_the_credential_types_inject_what_is_read() -> None:
    text = (ROOT / "roles/awx_objects/vars/main.yml").read_text(encoding="utf-8").replace("!unsafe", "")
    types = yaml.safe_load(text)["__awx_objects_credential_types"]
    settings = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    secrets = set(re.findall(r"^\| `(\w+)` \| str \| \*secret\*", settings, re.MULTILINE))
    for one in types:
        injected = one["injectors"]
        fields = {f"SEATRIAL_{field['id'].upper()}": f"{{{{ {field['id']} }}}}" for field in one["inputs"]["fields"]}
        assert all(fields[name] == value for name, value in injected.get("env", {}).items())
        assert {name.removeprefix("SEATRIAL_").lower() for name in injected.get("env", {})} <= secrets
        assert all(f"| `{name}` |" in settings for name in injected.get("extra_vars", {}))


def templates() -> dict[str, Any]:
    """Variables of the job templates that awx.yml makes, of which AWX renders the last."""
    names = yaml.safe_load((ROOT / "roles/awx_objects/vars/main.yml").read_text().replace("!unsafe", ""))
    return {"cluster_provider": "existing", "run_name": names["__awx_objects_run_name"]}


@pytest.fixture
def token(rehearsal: Any) -> Iterator[str]:
    """A token of an administrator of the cluster, as in AWX's credential of type Bearer Token."""
    name = f"awx-{os.getpid()}"
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    with rehearsal.client() as client:
        client.request("POST", accounts, {"metadata": {"name": name}})
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        client.request("POST", f"{rbac}/clusterrolebindings", binding)
        try:
            asked = {"spec": {"expirationSeconds": 3600}}
            yield client.request("POST", f"{accounts}/{name}/token", asked)["status"]["token"]
        finally:
            client.request("DELETE", f"{rbac}/clusterrolebindings/{name}")
            client.request("DELETE", f"{accounts}/{name}")


def bearer(rehearsal: Any, token: str) -> dict[str, str]:
    """The environment of a job with that credential."""
    with rehearsal.client() as client:
        host = client.access.server
    return {"K8S_AUTH_HOST": host, "K8S_AUTH_API_KEY": token, "K8S_AUTH_VERIFY_SSL": "False", "KUBECONFIG": ""}


def labelled(rehearsal: Any, run_id: str) -> list[str]:
    """The namespaces, Jobs and pods of a run."""
    query = {"labelSelector": f"perfscale.seatrial/run={run_id}"}
    paths = ("/api/v1/namespaces", "/apis/batch/v1/jobs", "/api/v1/pods")
    with rehearsal.client() as client:
        lists = [client.request("GET", path, query=query)["items"] for path in paths]
    return [one["metadata"]["name"] for items in lists for one in items]


def test_a_job_uses_the_bearer_token_of_awx_and_leaves_it_nowhere(tmp_path: Path, rehearsal: Any, token: str) -> None:
    extra = {**templates(), "run_artifacts_dir": str(tmp_path / "runs"), "doctor_fail": False}
    done = job(tmp_path / "job", "cluster,release", extra, bearer(rehearsal, token), project="workload_scale")
    assert done.status == "successful", said(done)
    (run_dir,) = run_dirs(tmp_path / "runs")
    assert run_dir.name == "workload_scale-7"
    kept = [path for path in run_dir.rglob("*") if path.is_file() and token in path.read_text(errors="replace")]
    assert kept == [] and token not in said(done)
    recorded = files.read_yaml(run_dir / "cluster.yml")["clusters"]["sutest"]["kubeconfig"]
    assert not Path(recorded).exists(), "the file with the token is gone"
    handed_on = [one for one in done.events if one["event"] == "playbook_on_stats"][-1]["event_data"]["artifact_data"]
    assert (handed_on["seatrial_run_dir"], handed_on["seatrial_status"]) == (str(run_dir), "passed")


@pytest.mark.long
@pytest.mark.parametrize("end", ["canceled", "timeout"])
def test_another_job_gives_back_by_name_what_a_killed_one_left_on_an_existing_cluster(
    end: str, tmp_path: Path, rehearsal: Any, token: str
) -> None:
    runs, first = tmp_path / "runs", tmp_path / "job-1-kubeconfig"
    runs.mkdir()
    common = {**templates(), "run_artifacts_dir": str(runs), "doctor_fail": False}
    nodes: dict[str, Any] = {"project": "workload_scale", "workflow": 42}
    load = {
        "preset": ["light"],
        "workload_scale_count": 4,
        "workload_scale_run_seconds": 3600,
        "workload_scale_gpus": 0,
    }
    first.write_bytes(Path(rehearsal.kubeconfig).read_bytes())
    begun = time.monotonic()

    def under_load() -> bool:
        assert time.monotonic() - begun < 600, "the load has not begun"
        return end == "canceled" and any(path.stat().st_size for path in runs.glob("*/points/001/ledger.jsonl"))

    extra = {**common, **load, "cluster_kubeconfig": str(first)}
    words = {"cancelled": under_load, "timeout": 0 if end == "canceled" else 90}
    killed = job(tmp_path / "job-1", "", extra, **words, **nodes)
    assert killed.status == end, said(killed)
    run_dir = runs / "workload_scale-42"
    run_id = files.read_yaml(run_dir / "run.yml")["id"]
    if end == "canceled":
        assert labelled(rehearsal, run_id), "a killed job gives nothing back"

    # AWX removes the file of the credential with the job. The workflow gives its variables to each node.
    first.unlink()
    back = {**common, **load, "cluster_keep": False, "run_repeat_failure": "{{ awx_workflow_job_id is defined }}"}
    for turn in ("job-2", "job-3"):
        done = job(tmp_path / turn, "cleanup,release", back, bearer(rehearsal, token), **nodes)
        assert done.status == "failed" and "but the run itself is interrupted" in said(done), said(done)
    assert labelled(rehearsal, run_id) == []
    record = files.read_yaml(run_dir / "run.yml")
    assert (
        record["held"] == [] and files.read_yaml(run_dir / "cluster.yml")["clusters"]["sutest"]["state"] == "released"
    )

    del back["run_repeat_failure"]
    none = job(tmp_path / "job-4", "cleanup,release", back, **{**nodes, "workflow": 43})
    assert none.status == "successful" and "There is no run workload_scale-43 in" in said(none)


@pytest.mark.long
def test_a_cancelled_job_is_given_back_by_another_one(tmp_path: Path) -> None:
    runs, data = tmp_path / "runs", tmp_path / "data"
    extra = {"preset": ["light"], "run_artifacts_dir": str(runs), "rehearsal_data_dir": str(data)}
    extra["rehearsal_cache_dir"] = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")) + "/seatrial"
    begun = time.monotonic()

    def under_load() -> bool:
        assert time.monotonic() - begun < 300, "the load has not begun"
        return any(path.stat().st_size for path in runs.glob("*/points/001/ledger.jsonl"))

    cancelled = job(tmp_path / "job", "", extra, cancelled=under_load)
    assert cancelled.status == "canceled", said(cancelled)
    (run_dir,) = run_dirs(runs)
    assert str(run_dir) in "\n".join(said(cancelled).splitlines()[:20]), "the output says early where the run is"
    ports = [port for path in data.glob("*") for port in ports_of(path)]
    assert open_ports(ports), "the cluster is still up"

    back = {"run_dir": str(run_dir)}
    for turn in ("first", "second"):
        done = job(tmp_path / turn, "cleanup,release", back)
        assert (done.status, done.rc) == ("successful", 0), said(done)
    assert traces(data) == [] and open_ports(ports) == []
    assert [path.name for path in data.glob("*") if path.is_dir()] == []
    assert files.read_yaml(run_dir / "cluster.yml")["clusters"]["sutest"]["state"] == "released"

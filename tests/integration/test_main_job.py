"""The main job as its user runs it: preset light on a rehearsal cluster, looked at while held, then given back."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import run_files
import servers
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files as _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_archives import MOST_BYTES
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client
from playbook import PROGRAM, Done, environment, play, run_dirs

CANARIES = {one: f"canary-7d1f-{one}" for one in ("environment", "extra", "folder", "vault")}
WORDS = ["-vvv", "-e", "preset=light", "-e", "fine_tuning_model_token_required=true"]
# How busy this machine is says nothing of the job.
WORDS += ["-e", "workload_max_lateness=60", "-e", "run_capture_seconds=120"]


@dataclass(frozen=True)
class Job:
    """A run whose phases up to report have run and whose cluster is still up."""

    done: Done
    directory: Path
    artifacts: Path

    @property
    def record(self) -> dict:
        return _files.read_yaml(self.directory / "run.yml")

    @property
    def cluster(self) -> dict:
        return _files.read_yaml(self.directory / "cluster.yml")["clusters"]["sutest"]

    def lines(self, name: str, kind: str) -> list[dict]:
        found = _files.read_json_lines(self.directory / "points" / "001" / name)
        return [one for one in found if one["type"] == kind]


def give_back(job: Job) -> Done:
    """Run the printed command as it stands in the run directory."""
    command = (job.directory / "GIVE_BACK").read_text(encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", command],
        cwd="/",
        env=environment(job.artifacts),
        timeout=300,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Done(done.returncode, done.stdout)


def secret_files(folder: Path) -> list[str]:
    """Return the words that give one secret in a folder of secrets and another one in a vault."""
    (folder / "secrets").mkdir()
    (folder / "secrets" / "fine_tuning_model_token").write_text(CANARIES["folder"] + "\n", encoding="utf-8")
    password, vault = folder / "password", folder / "vault.yml"
    password.write_text("a password of a test\n", encoding="utf-8")
    vault.write_text(f"storage_https_token: {CANARIES['vault']}\n", encoding="utf-8")
    program = str(PROGRAM.parent / "ansible-vault")
    subprocess.run([program, "encrypt", "--vault-password-file", str(password), str(vault)], check=True)
    words = ["-e", f"secrets_dir={folder / 'secrets'}", "-e", f"@{vault}"]
    return [*words, "--vault-password-file", str(password)]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    artifacts = tmp_path_factory.mktemp("job")
    secret = {"SEATRIAL_STORAGE_HUB_TOKEN": CANARIES["environment"]}
    given = [*WORDS, *secret_files(tmp_path_factory.mktemp("secrets"))]
    done = play(*given, "--tags", "cluster,prepare,test,report", artifacts=artifacts, env=secret)
    found = run_dirs(artifacts)
    assert len(found) == 1, done.output[-5000:]
    job = Job(done, found[0], artifacts)
    yield job
    give_back(job)


def test_the_run_passes_and_says_what_where_and_how_it_went(job: Job) -> None:
    assert job.done.code == 0, job.done.output[-8000:]
    for text in (
        "verdict   PASS",
        "no history to compare with",
        "Ansible itself",
        "report/index.html",
        "give back ",
        "held      rehearsal",
    ):
        assert text in job.done.output, text
    assert job.record["status"] == "passed"
    assert [(name, phase["status"]) for name, phase in job.record["phases"].items()] == [
        (name, "passed") for name in ("cluster", "prepare", "test", "report")
    ]


def test_every_file_of_the_run_fits_its_schema_and_none_is_missing(job: Job) -> None:
    assert run_files.missing(job.directory) == []
    assert len(list(run_files.validated(job.directory))) >= 15


def test_the_state_before_and_after_the_point_is_in_the_report(job: Job) -> None:
    captures = _files.read_json(job.directory / "capture" / "index.json")["captures"]
    assert [(one["why"], one["notes"]) for one in captures] == [("before the test", []), ("after point 001", [])]
    kept = {one["file"]: one for one in captures[1]["files"]}
    assert (kept["workloads-trainjob.jsonl"]["objects"], kept["workloads-trainjob.jsonl"]["of"]) == (2, 12)
    page = (job.directory / "report" / "index.html").read_text(encoding="utf-8")
    assert "What the cluster was" in page and "02-point-001" in page


def test_each_role_call_holds_its_arguments_and_the_command_that_repeats_it(job: Job) -> None:
    calls = sorted(job.directory.glob("[0-9]*__*"))
    assert [path.name for path in calls if not (path / "COMMAND").is_file()] == []
    submit = next(path for path in calls if path.name.endswith("__workload__submit"))
    assert _files.read_yaml(submit / "arguments.yml")["workload_count"] == 12
    assert not list(job.directory.glob("*/FAILURE"))


def test_progress_is_shown_while_the_load_runs(job: Job) -> None:
    shown = [line for line in job.done.output.splitlines() if re.search(r"12/12 submitted, 12 created", line)]
    assert shown, job.done.output[-8000:]


def test_plan_ledger_audit_log_and_timeline_agree_on_number_and_names(job: Job) -> None:
    planned = {one["name"] for one in job.lines("plan.jsonl", "workload")}
    created = [
        one["name"]
        for one in job.lines("ledger.jsonl", "attempt")
        if one["kind"] == "TrainJob" and one["outcome"] == "created"
    ]
    audited = []
    for event in _files.read_json_lines(job.cluster["audit_log"]):
        about = event.get("objectRef") or {}
        if (about.get("resource"), event["verb"], event.get("responseStatus", {}).get("code")) != (
            "trainjobs",
            "create",
            201,
        ):
            continue
        if "dryRun=All" not in event["requestURI"]:
            audited.append(about["name"] if about.get("name") else event["responseObject"]["metadata"]["name"])
    timeline = [one["name"] for one in job.lines("timeline.jsonl", "workload")]
    assert len(planned) == 12
    assert sorted(planned) == sorted(created) == sorted(audited) == sorted(timeline)


def test_every_workload_ended_and_its_stages_stand_in_the_order_of_its_life(job: Job) -> None:
    header = job.lines("timeline.jsonl", "header")[0]
    assert {stage["name"] for stage in header["stages"]} >= {"created", "succeeded"}
    for row in job.lines("timeline.jsonl", "workload"):
        assert (row["outcome"], row["censored"], row["contradictions"]) == ("succeeded", False, [])
        assert row["stages"]["created"][0] >= row["sent"] - 0.001
        for earliest, latest in row["stages"].values():
            assert row["sent"] - 0.001 <= earliest <= latest


def test_what_nodes_do_is_simulated_and_what_the_control_plane_does_is_not(job: Job) -> None:
    stages = {one["name"]: one["simulated"] for one in job.lines("timeline.jsonl", "header")[0]["stages"]}
    assert (stages["created"], stages["pods_scheduled"]) == (False, False)
    assert (stages["pods_running"], stages["pods_succeeded"]) == (True, True)
    kpis = _files.read_json(job.directory / "points" / "001" / "kpis.json")["kpis"]
    assert all(one["simulated"] for one in kpis if one["name"] in ("makespan", "throughput_done"))
    training = [one for one in kpis if one["name"].startswith("train")]
    assert training and all(one["simulated"] and one["n"] > 0 for one in training)
    assert any(not one["simulated"] for one in kpis)
    assert all(one["n"] <= one["of"] for one in kpis)


def test_secrets_reach_the_cluster_and_no_file_and_no_output(job: Job) -> None:
    for canary in (CANARIES[one] for one in ("environment", "folder", "vault")):
        assert canary not in job.done.output
        files = (path for path in job.directory.rglob("*") if path.is_file())
        assert [str(path) for path in files if canary.encode() in path.read_bytes()] == []
    provenance = _files.read_yaml(job.directory / "provenance.yml")["settings"]
    for name in ("fine_tuning_model_token", "storage_hub_token", "storage_https_token"):
        assert provenance[name] == [{"source": "secret", "value": "<secret>"}]
    with Client.from_kubeconfig(job.cluster["kubeconfig"]) as client:
        found = client.list(client.kind("v1", "Secret"), f"fine-tuning-{job.record['id']}")[0]
    values = [base64.b64decode(value).decode() for one in found for value in (one.get("data") or {}).values()]
    assert CANARIES["folder"] in values


def test_a_secret_given_by_extra_variable_is_masked_in_the_recorded_command(job: Job) -> None:
    done = play(
        "--tags",
        "report",
        "-vvv",
        "-e",
        f"run_dir={job.directory}",
        "-e",
        f"fine_tuning_model_token={CANARIES['extra']}",
        artifacts=job.artifacts,
    )
    assert done.code == 0, done.output[-4000:]
    leaks = [
        str(path)
        for path in job.directory.rglob("*")
        if path.is_file() and CANARIES["extra"].encode() in path.read_bytes()
    ]
    assert leaks == []
    assert CANARIES["extra"] not in done.output
    assert "fine_tuning_model_token=<secret>" in job.record["sessions"][-1]["command"]


def test_another_project_or_other_presets_on_this_run_are_refused(job: Job) -> None:
    done = play("--tags", "settings", "-e", f"run_dir={job.directory}", "-e", "preset=gpu", artifacts=job.artifacts)
    assert done.code != 0
    assert "a run keeps its presets" in done.flat()


def test_the_headline_of_the_verdict_is_what_the_report_shows(job: Job) -> None:
    verdict = json.loads((job.directory / "verdict.json").read_text(encoding="utf-8"))
    page = (job.directory / "report" / "index.html").read_text(encoding="utf-8")
    assert verdict["verdict"] == "pass"
    assert verdict["headline"]
    assert "simulated" in page.lower()
    assert 'src="http' not in page and 'href="http' not in page


def test_what_is_exported_says_how_the_run_went(job: Job, tmp_path: Path) -> None:
    with servers.s3(tmp_path) as address:
        words = ["-e", f"run_dir={job.directory}", "-e", "export_s3_url=s3://results/here"]
        words += ["-e", f"export_s3_endpoint={address}", "-e", f"export_s3_access_key={servers.S3_KEYS[0]}"]
        secret = {"SEATRIAL_EXPORT_S3_SECRET_KEY": servers.S3_KEYS[1]}
        done = play("--tags", "export", *words, artifacts=job.artifacts, env=secret)
        assert done.code == 0, done.output[-4000:]
        place = s3.S3Location(
            "results",
            f"here/{job.directory.name}",
            address,
            access_key=servers.S3_KEYS[0],
            secret_key=servers.S3_KEYS[1],
        )
        s3.download_objects_to_folder(place, tmp_path / "there", MOST_BYTES)
    record = _files.read_yaml(tmp_path / "there" / "run.yml")
    assert record["status"] == "passed"
    assert record["phases"]["export"]["status"] == "running"
    assert " passed after " in (tmp_path / "there" / "FINISHED").read_text(encoding="utf-8")
    assert job.record["phases"]["export"]["status"] == "passed"
    assert job.record["exported"][0]["address"] == f"s3://results/here/{job.directory.name}"


def test_the_printed_command_gives_everything_back_twice(job: Job) -> None:
    """Last of the module: afterwards nothing of the run is left on this machine."""
    cluster = job.cluster
    port = int(cluster["api_host"].rpartition(":")[2])
    for attempt in range(2):
        done = give_back(job)
        assert done.code == 0, (attempt, done.output[-6000:])
        if not attempt:
            assert "go with their cluster, which is removed next" in done.output
    assert job.record["held"] == []
    assert "held " not in done.output
    assert not Path(cluster["data_dir"]).exists()
    assert processes_naming(cluster["data_dir"]) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def processes_naming(path: str) -> list[str]:
    """Command lines of processes that mention ``path``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            except OSError:
                continue
            if path in command:
                found.append(command)
    return found

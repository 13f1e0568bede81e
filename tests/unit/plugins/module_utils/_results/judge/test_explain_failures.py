# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What explains a failed run: texts that match, evidence, and signatures of users."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import cluster_properties
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import (
    collect_failure_evidence,
    explain_failures,
    write_verdict,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.overall_verdict import (
    format_finding_as_line,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader

ROOT = Path(__file__).parents[6]
SIGNATURES = ROOT / "roles" / "results" / "files" / "signatures.yml"
QUOTA = {
    "name": "quota",
    "title": "A quota",
    "fault": "test",
    "remedy": "Ask for less.",
    "patterns": ["exceeded*quota"],
}


def write_run(top: Path, error: str = "", cause: str = "", **texts: str) -> Path:
    """Write a run whose phase prepare failed. texts: further files by path, with _ for / and the dots as they are."""
    phases = {"cluster": {"status": "passed"}, "prepare": {"status": "failed", "error": error or None, "cause": cause}}
    top.mkdir(exist_ok=True)
    (top / "run.yml").write_text(yaml.safe_dump({"id": "t1126-aaaaaa", "phases": phases}, sort_keys=False))
    for name, text in texts.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    return top


def explain(top: Path, *paths: Path, **more: Any) -> dict[str, Any]:
    """Return findings.json of a run."""
    signatures = explain_failures.load_failure_signatures(map(str, paths or (SIGNATURES,)))
    document = explain_failures.explain_run(run_reader.read_run_directory(top), {}, signatures, **more)
    files.validate_schema_if_enabled("findings/1", document)
    return document


def names(document: dict[str, Any]) -> list[str]:
    return [finding["signature"] for finding in document["findings"]]


def test_words_must_stand_in_one_line_in_their_order() -> None:
    text = "a quota\nexceeded it\nit exceeded a quota twice\nquota exceeded\nexceeded quota: quota"
    assert list(explain_failures.line_numbers_with_word_sequence(text, ("exceeded", "quota"))) == [2, 4]


def test_the_search_takes_a_time_proportional_to_the_text() -> None:
    words = ("aaaa", "aaab", "a b", "b")

    def seconds(size: int) -> float:
        began = time.process_time()
        assert not list(
            explain_failures.line_numbers_with_word_sequence("a" * size + "\n" + "aaab" * size, words[::-1])
        )
        assert not list(explain_failures.line_numbers_with_word_sequence("aaaa aaab " * size, words))
        assert list(explain_failures.line_numbers_with_word_sequence("aaaa " * size + "aaab a b b", words)) == [0]
        return time.process_time() - began

    assert seconds(400_000) < 40 * max(seconds(40_000), 0.01)


def test_an_error_is_found_with_file_line_and_class(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", "Lease the machines: the lab\nhas 2 of 4 free", "NotEnoughHosts")
    finding = explain(top)["findings"][0]
    assert (finding["signature"], finding["fault"]) == ("lab_full", "lab")
    where = finding["evidence"][0]
    assert where["file"] == "run.yml"
    assert (top / "run.yml").read_text().splitlines()[where["line"] - 1].strip().startswith("error:")
    assert "run.yml:" in format_finding_as_line(finding)


def test_evidence_has_no_secret_no_control_character_and_one_line(tmp_path: Path) -> None:
    error = "exceeded quota: \x1b[2Jtoken=abcdefgh12345 sha256~aaaaaaaaaaaaaaaaaaaaaaaaaaaa\nnext " + "x" * 5000
    text = json.dumps(explain(write_run(tmp_path / "run", error)))
    assert "abcdefgh12345" not in text and "sha256~aaaa" not in text
    evidence = explain(tmp_path / "run")["findings"][0]["evidence"][0]["text"]
    assert "\x1b" not in evidence and "\n" not in evidence and len(evidence) <= explain_failures.LINE


def test_a_good_run_is_not_searched(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run")
    record = yaml.safe_load((top / "run.yml").read_text())
    record["phases"]["prepare"]["status"] = "passed"
    (top / "run.yml").write_text(yaml.safe_dump(record))
    write_event(top, "FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    assert explain(top)["findings"] == []


def write_event(top: Path, reason: str, message: str, uid: str = "u1") -> None:
    folder = top / "capture" / "02-after-a-failure"
    folder.mkdir(parents=True, exist_ok=True)
    event = {"kind": "Event", "type": "Warning", "reason": reason, "message": message}
    event["involvedObject"] = {"kind": "Pod", "name": "p1", "uid": uid}  # type: ignore[assignment]
    with (folder / "events-one.jsonl").open("a") as stream:
        stream.write("not json\n" + json.dumps(event) + "\n")


def test_events_of_pods_that_are_well_do_not_count(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", "something else")
    write_event(top, "FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    finding = explain(top)["findings"][0]
    assert (finding["signature"], finding["evidence"][0]["line"]) == ("gpu_missing", 2)
    pod = {"kind": "Pod", "metadata": {"name": "p1", "uid": "u1"}, "status": {"phase": "Succeeded"}}
    (top / "capture" / "02-after-a-failure" / "pods.jsonl").write_text(json.dumps(pod) + "\n")
    document = explain(top)
    assert names(document) == []
    assert [entry["text"] for entry in document["unexplained"]] == ["something else"]


def test_a_more_exact_cause_replaces_a_general_one(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", "x")
    write_event(top, "Failed", 'Failed to pull image "a/b:1": failed to resolve reference "a/b:1": a/b:1: not found')
    assert names(explain(top)) == ["image_missing"]


def test_findings_stay_in_a_copy_without_their_files(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", "x")
    write_event(top, "Failed", "exceeded quota: few")
    files.write_json(top / explain_failures.FILE, explain(top), "findings/1")
    (top / "capture" / "02-after-a-failure" / "events-one.jsonl").unlink()
    assert names(explain(top)) == ["quota"]


def test_past_runs_are_counted_and_stay(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", "exceeded quota: few")
    past = {"quota": ["t1120-aaaaaa", "t1121-aaaaaa"], "oom": ["t1121-aaaaaa"]}
    document = explain(top, past=past, past_runs=5)
    assert document["findings"][0]["past_runs"] == 2
    assert "also in 2 past runs since t1120-aaaaaa" in format_finding_as_line(document["findings"][0])
    files.write_json(top / explain_failures.FILE, document, "findings/1")
    assert explain(top)["findings"] == document["findings"]


@pytest.mark.parametrize(
    "change",
    [
        {"count": None}, {"count": "2"}, {"count": True}, {"title": 1}, {"fault": ["lab"]}, {"places": ["moon"]},
        {"places": [[]]}, {"points": "001"}, {"past_runs": None}, {"first_seen": 5}, {"evidence": {}},
        {"evidence": [{"file": "run.yml"}]}, {"evidence": [{"file": 1, "line": 1, "text": "a"}]}, {"remedy": None},
    ],
)  # fmt: skip
def test_only_whole_findings_of_an_earlier_file_are_read(tmp_path: Path, change: dict[str, Any]) -> None:
    top = write_run(tmp_path / "run", "exceeded quota: few")
    document = explain(top)
    whole = document["findings"][0] | {"signature": "oom", "evidence": []}
    missing = {key: value for key, value in whole.items() if key not in change} | {"signature": "a"}
    for damaged in (missing, whole | {"signature": "a"} | change, {"signature": "a"}, 1):
        document["findings"] = [damaged, whole]
        document["past"] = {"runs": 1, "signatures": {"quota": [1]}}
        (top / explain_failures.FILE).write_text(json.dumps(document))
        assert explain_failures.read_matched_signature_names(top) == ("oom",)
        assert write_verdict.rewrite_junit_summary_and_answer(top, [str(SIGNATURES)]) == []
        assert explain_failures.read_matched_signature_names(top) == ("quota", "oom")


@pytest.mark.parametrize("past", [1, [], {}, {"runs": 1}, {"runs": 1, "signatures": [1]}, {"signatures": {"quota": 1}}])
def test_damaged_counts_of_past_runs_are_not_read(tmp_path: Path, past: Any) -> None:
    top = write_run(tmp_path / "run", "exceeded quota: few")
    (top / explain_failures.FILE).write_text(json.dumps(explain(top) | {"past": past}))
    assert explain(top)["past"] == {"runs": 0, "signatures": {}}


def test_damaged_and_hostile_files_end_nothing(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", "exceeded quota: few", **{"findings.json": "[1]"})
    folder = top / "capture" / "01-after"
    (folder / "logs").mkdir(parents=True)
    (folder / "events-x.jsonl").write_bytes(b"[" * 100_000 + b"\n{}\n\xff\n" + b'{"involvedObject": null}\n')
    (folder / "pods.jsonl").write_text('{"kind": "Pod", "status": {"containerStatuses": null, "conditions": [1]}}\n')
    (folder / "state.json").write_text('{"nodes": {"n": {}}}')
    (folder / "logs" / "a.log").symlink_to("/etc/passwd")
    assert "quota" in names(explain(top))
    pod = {"kind": "Pod", "metadata": 1, "status": {"containerStatuses": [1]}}
    (folder / "pods.jsonl").write_text(json.dumps(pod))
    write_verdict.rewrite_junit_summary_and_answer(top, [str(SIGNATURES)])
    assert "error" in (top / "junit.xml").read_text()


def test_causes_are_in_all_texts_of_a_run(tmp_path: Path) -> None:
    top = write_run(tmp_path / "run", "exceeded quota: few")
    write_verdict.rewrite_junit_summary_and_answer(top, [str(SIGNATURES)])
    remedy = "Ask for less, raise the ResourceQuota"
    summary = (top / "summary.md").read_text()
    assert "Known causes:" in summary and remedy in summary and "run.yml:" in summary
    case = ElementTree.parse(top / "junit.xml").find(".//testcase[system-out]")
    assert case is not None and case.find("error") is not None and remedy in str(case.findtext("system-out"))
    answer = json.loads((top / "answer.json").read_text())
    assert [finding["signature"] for finding in answer["findings"]] == ["quota"]


def other(**change: Any) -> list[dict[str, Any]]:
    return [{**QUOTA, **change}]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ("a: 1", "a list of signatures of failures is expected"),
        ([{"name": "x"}], "'title' is missing"),
        (other(fault="labs"), "fault 'labs' is none of test, product, lab"),
        (other(patterns="quota"), "patterns must be a list of texts"),
        (other(patterns=["*a*"]), "needs at least 4 letters"),
        (other(patterns=[]), "it can match nothing"),
        (other(**{"in": ["event"]}), "did you mean 'events'"),
        (other(causes=["NotEnoughHost"]), "did you mean 'NotEnoughHosts'"),
        (other(yields_to=["oomm"]), "yields_to"),
        (other(pattern=["x"]), "unknown key 'pattern'"),
    ],
)
def test_a_wrong_signature_is_refused(tmp_path: Path, entries: Any, message: str) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(entries if isinstance(entries, str) else yaml.safe_dump(entries))
    with pytest.raises(InputError, match=message):
        explain_failures.load_failure_signatures([str(SIGNATURES), str(path)])


def test_a_signature_of_a_user_replaces_ours(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(yaml.safe_dump([{**QUOTA, "remedy": "Ask Anna."}, {**QUOTA, "name": "own", "patterns": ["a few"]}]))
    document = explain(write_run(tmp_path / "run", "exceeded quota: few"), SIGNATURES, path)
    assert [finding["remedy"] for finding in document["findings"]] == ["Ask Anna."]


Search = Callable[..., list[str]]


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Return a function that searches texts of a failed run and returns the names of the signatures that it finds.

    A text is a place and the text. The place of an error may be followed by the class of the error.
    """

    def search_texts(*texts: tuple[str, str]) -> list[str]:
        parts = [(*place.split(), "") for place, _text in texts]
        found = [
            collect_failure_evidence.RunText(part[0], "a", 1, text, "", part[1])
            for part, (_place, text) in zip(parts, texts, strict=True)
        ]
        monkeypatch.setattr(explain_failures, "texts_to_search_for_causes", lambda _run: iter(found))
        return names(explain(write_run(tmp_path / "run", "x")))

    return search_texts


ORDINARY = "0/8 nodes are available: "
MASTERS = "3 node(s) had untolerated taint {node-role.kubernetes.io/master: }"
GPU_TAINT = "4 node(s) had untolerated taint {nvidia.com/gpu: present}"
UNMATCHED = "3 node(s) didn't match Pod's node affinity/selector"
UNUSED = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor default"
API = "https://api.lab:6443"
THROTTLED = (
    "Waited for 1.046s due to client-side throttling, not priority and fairness, request: GET:https://10.0.0.1:443/api"
)


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        # scheduling
        ("events", f"{ORDINARY}1 Insufficient cpu, {GPU_TAINT}.", ["no_room", "taint_of_gpus"]),
        ("events", f"{ORDINARY}4 Insufficient nvidia.com/gpu, {MASTERS}.", ["gpu_missing"]),
        ("events", f"{ORDINARY}1 Insufficient nvidia.com/gpu, {GPU_TAINT}.", ["gpu_missing", "taint_of_gpus"]),
        ("events", f"{ORDINARY}4 Insufficient nvidia.com/mig-1g.5gb.", ["gpu_missing"]),
        ("events", f"{ORDINARY}4 Insufficient nvidia.com/hostdev.", []),
        ("objects", UNUSED, []),
        ("events", f"{ORDINARY}{UNMATCHED}, {MASTERS}.", ["node_selector"]),
        ("events", f"{ORDINARY}{UNMATCHED}, {GPU_TAINT}.", ["node_selector", "taint_of_gpus"]),
        ("events", f"{ORDINARY}{UNMATCHED}, 4 Insufficient nvidia.com/gpu.", ["gpu_missing"]),
        ("events", f"{ORDINARY}5 node(s) didn't have free ports for the requested pod ports, {MASTERS}.", []),
        ("events", f"{ORDINARY}5 node(s) had volume node affinity conflict, {MASTERS}.", []),
        ("events", f"{ORDINARY}5 node(s) didn't satisfy existing pods anti-affinity rules, {MASTERS}.", []),
        ("events", f"{ORDINARY}{MASTERS}.", ["taint"]),
        ("events", f"{ORDINARY}{MASTERS}, {GPU_TAINT}.", ["taint_of_gpus"]),
        # the API server and other servers
        ("errors AccessError", f"{API} (lab/kubeconfig) can't be reached: Connection refused", ["api_unreachable"]),
        ("errors AccessError", f"{API}: no answer: timed out; tried for 60 s", ["api_unreachable"]),
        ("errors AccessError", f"{API} refuses our credentials (401) from lab/kubeconfig", ["api_unreachable"]),
        (
            "errors ProcessError",
            f"Get {API}/version: dial tcp 10.1.2.3:6443: connect: connection refused",
            ["api_unreachable"],
        ),
        ("errors ProcessError", "the program reports: Connection refused", []),
        ("errors AccessError", "s3://runs/a: Could not connect to the endpoint URL", ["service_unreachable"]),
        ("errors NoAnswer", "https://metrics.lab: GET /api/v1/query: Connection refused", ["service_unreachable"]),
        ("errors AccessError", "https://m.lab: GatedRepoError: 401", ["data_missing"]),
        ("errors AccessError", "metal-1: can't boot: its BMC 10.0.0.2 reports: 503", ["bmc"]),
        # limits of requests and pulls
        ("logs", THROTTLED, []),
        ("requests", "429: TooManyRequests: the API server has enough to do with images", ["api_throttled"]),
        ("errors ApiError", "create the image: POST /apis/x: 429 TooManyRequests: wait", ["api_throttled"]),
        (
            "errors ApiError",
            "429 TooManyRequests: Cannot evict pod as it would violate the pod's disruption budget.",
            [],
        ),
        (
            "events",
            'Failed to pull image "a/b": toomanyrequests: You have reached your pull rate limit',
            ["registry_limit"],
        ),
        ("events", 'Failed to pull image "a/b": toomanyrequests: too fast', ["registry_limit"]),
        ("logs", "toomanyrequests: You have reached your unauthenticated pull rate limit.", []),
        ("events", 'Failed to pull image "a/b": pull QPS exceeded', ["kubelet_pull_limit"]),
        # objects that are refused
        ("events", 'pods "a" is forbidden: failed quota: few: must specify limits.cpu', ["quota_unset"]),
        ("events", 'pods "a" is forbidden: exceeded quota: few, requested: cpu=2', ["quota"]),
        ("requests", "500: etcdserver: mvcc: database space exceeded", ["etcd_full"]),
        (
            "objects",
            'Unhealthy=True: CreateFailed: error creating components: Job.batch "" is invalid: metadata.name: Required'
            " value: name or generateName is required",
            ["wrapped_not_created"],
        ),
        (
            "objects",
            'Unhealthy=True: CreateFailed: error creating components: pods "a" is forbidden: exceeded quota: few',
            ["quota"],
        ),
        # images
        ("events", 'Failed to pull image "a": pull access denied for a, repository does not exist', ["image_refused"]),
        ("events", "reading manifest 1 in quay.lab/a: name unknown: repository not found", ["image_missing"]),
        ("events", "name unknown: repository name not known to registry", ["image_missing"]),
        ("events", "image service: hostname unknown", []),
        # nodes and volumes
        ("events", "Evicted: The node was low on resource: memory.", ["node_pressure"]),
        (
            "events",
            "Evicted: Pod ephemeral local storage usage exceeds the total limit of containers 1Gi.",
            ["storage_limit"],
        ),
        ("events", 'Evicted: Usage of EmptyDir volume "d" exceeds the limit "1Gi".', ["storage_limit"]),
        ("events", 'Evicted: Container a exceeded its local ephemeral storage limit "1Gi".', ["storage_limit"]),
        ("events", "SystemOOM: System OOM encountered, victim process: python, pid: 7", ["node_pressure"]),
        ("events", 'FailedMount: MountVolume.SetUp failed: object "n"/"kube-root-ca.crt" not registered', []),
        ("events", 'FailedMount: MountVolume.SetUp failed for volume "d": driver not found', ["volume_not_mounted"]),
        ("errors", "pod a: Ready=False: ContainersNotReady: containers with unready status: [a]", []),
        ("errors", "job a: PodsNotReady", []),
        ("errors", "node a is NotReady", ["node_not_ready"]),
    ],
)
def test_a_text_shows_these_causes(search: Search, place: str, text: str, expected: list[str]) -> None:
    assert search((place, text)) == expected


@pytest.mark.parametrize("resource", [*cluster_properties.GPU_RESOURCES, "nvidia.com/mig-1g.5gb"])
def test_a_missing_gpu_is_known_of_each_vendor(search: Search, resource: str) -> None:
    assert search(("events", f"{ORDINARY}8 Insufficient {resource}.")) == ["gpu_missing"]
    assert search(("errors", f"it asks for 1 {resource}, and no node has any")) == ["gpu_missing"]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("exit code 137: OOMKilled", "oom"),
        ("CUDA out of memory", "gpu_memory"),
        ("NVRM: Xid 79", "gpu_broken"),
        ("RepositoryNotFoundError", "data_missing"),
        ("No space left on device", "disk_full"),
        ("node a is NotReady", "node_not_ready"),
    ],
)
def test_workers_that_ended_explain_that_others_cannot_reach_them(search: Search, text: str, cause: str) -> None:
    alone = ("errors", "NCCL error: unhandled system error")
    assert search(alone) == ["gpu_network"]
    assert search(alone, ("errors", text)) == [cause]


#: Shortened files of runs in which one thing was wrong, most of them on a rehearsal cluster with a real node.
MADE = Path(__file__).parent / "made_failures"


def found_in(path: Path, top: Path) -> tuple[dict[str, Any], list[str]]:
    """Return a made failure and the signatures that are found in its files."""
    made = files.read_yaml(path)
    for name, text in made["files"].items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    verdict = json.loads(made["files"].get("verdict.json", "{}"))
    signatures = explain_failures.load_failure_signatures([str(SIGNATURES)])
    document = explain_failures.explain_run(run_reader.read_run_directory(top), verdict, signatures)
    for finding in document["findings"]:
        for entry in finding["evidence"]:
            assert (top / entry["file"]).read_text().count("\n") >= entry["line"] - 1
    return made, names(document)


def test_the_table_of_made_failures_is_what_is_found(tmp_path: Path) -> None:
    rows, right, expected, shown = [], 0, 0, 0
    for path in sorted(MADE.glob("*.yml")):
        made, found = found_in(path, tmp_path / path.stem)
        rows.append(f"| {made['made_by']} | {', '.join(made['expected']) or '–'} | {', '.join(found) or '–'} |")
        right += len(set(found) & set(made["expected"]))
        expected, shown = expected + len(made["expected"]), shown + len(found)
    rows.append(f"| **{len(rows)} runs** | recall {right} of {expected} | precision {right} of {shown} |")
    assert "\n".join(rows) in (ROOT / "docs" / "findings.md").read_text()

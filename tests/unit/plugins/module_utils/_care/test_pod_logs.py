# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose logs are collected, and into which file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.secret_gate import SecretScanner
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import pod_logs
from hypothesis import given
from hypothesis import strategies as st

PHASES = st.sampled_from(["Succeeded", "Failed", "Running"])


def pod(index: int | None, phase: str = "Succeeded", namespace: str = "ns", name: str = "") -> pod_logs.LoggedPod:
    return pod_logs.LoggedPod(name or f"w-{index}-master-0", namespace, phase, index, f"w-{index}", ("pytorch",))


@given(st.lists(PHASES, max_size=30), st.sampled_from(["all", "failed", "none"]), st.integers(0, 10))
def test_the_choice_is_complete_within_its_maximum(phases: list[str], which: str, maximum: int) -> None:
    pods = [pod(index, phase) for index, phase in enumerate(phases)]
    chosen, left_out = pod_logs.choose_pods(pods, which, maximum)
    wanted = {"all": len(phases), "failed": phases.count("Failed"), "none": 0}[which]
    assert len(chosen) + left_out == wanted
    assert not maximum or len(chosen) <= maximum
    assert [one.index for one in chosen] == sorted(one.index for one in chosen)


def test_with_a_maximum_failed_pods_go_before_others() -> None:
    pods = [pod(0), pod(1), pod(2, "Failed"), pod(None, "Failed")]
    chosen, left_out = pod_logs.choose_pods(pods, "all", 2)
    assert [one.index for one in chosen] == [2, None] and left_out == 2


def test_pods_of_one_name_in_two_namespaces_get_two_files() -> None:
    pods = [pod(0, name="same"), pod(1, name="same", namespace="other"), pod(2)]
    assert [pod_logs.pod_log_file_name(one, pods) for one in pods] == [
        "ns_same.log",
        "other_same.log",
        "w-2-master-0.log",
    ]


def test_a_pod_is_read_with_its_index_and_job() -> None:
    item: dict[str, Any] = {
        "metadata": {
            "name": "w-7-master-0",
            "namespace": "ns",
            "labels": {"perfscale.seatrial/index": "7", "training.kubeflow.org/job-name": "w-7"},
        },
        "spec": {"containers": [{"name": "pytorch"}, {"name": "proxy"}]},
        "status": {"phase": "Failed"},
    }
    assert pod_logs.LoggedPod.of(item) == pod_logs.LoggedPod(
        "w-7-master-0", "ns", "Failed", 7, "w-7", ("pytorch", "proxy")
    )
    shared = {
        "perfscale.seatrial/run": "r",
        "jobset.sigs.k8s.io/jobset-name": "r-001-12",
        "job-name": "r-001-12-node-0",
    }
    read = pod_logs.LoggedPod.of({**item, "metadata": {**item["metadata"], "labels": shared}})
    assert (read.index, read.workload) == (12, "r-001-12"), "a template that several workloads share has no index"
    foreign = {"perfscale.seatrial/run": "r", "job-name": "other-3"}
    assert pod_logs.LoggedPod.of({**item, "metadata": {**item["metadata"], "labels": foreign}}).index is None
    bare = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": [{"name": "c"}]}}
    assert pod_logs.LoggedPod.of(bare) == pod_logs.LoggedPod("p", "ns", "Unknown", None, "", ("c",))


GATE = SecretScanner({"word": "canary/8f3a1c77+x"})


@pytest.mark.parametrize(
    "line",
    [
        "canary/8f3a1c77+x",
        "password=hunter-canary",
        r'{"msg":"env {\"API_KEY\": \"hunter-canary\"}"}',
        "redis://:hunter-canary@cache:6379/0 s3://KEY:hunter-canary@bucket",
        "Y2FuYXJ5LzhmM2ExYzc3K3g=",
        "canary%2F8f3a1c77%2Bx",
        b"canary/8f3a1c77+x".hex(),
    ],
)
def test_a_log_is_written_without_what_is_a_secret_by_value_name_or_form(line: str) -> None:
    data = b"loss 0.5 \xff\n" + line.encode() + b"\nloss 0.4\n"
    written = pod_logs.log_without_secrets(data, GATE, 0)
    assert written.startswith(b"loss 0.5 \xff\n") and written.endswith(b"\nloss 0.4\n") and b"<secret>" in written
    assert not [word for word in (b"canary", b"hunter", b"Y2FuY", b"63616e617279") if word in written]


@given(st.integers(1, 80))
def test_a_log_that_was_cut_has_no_part_of_a_secret(size: int) -> None:
    text = "step 1 loss 0.5\nlogin canary/8f3a1c77+x done\nstep 2\n"
    begin = pod_logs.log_without_secrets(text.encode()[:size], GATE, size)
    end = GATE.masked(pod_logs.end_of_log(text, size))
    assert b"canary/" not in begin and "77+x" not in end
    assert text.startswith(begin.decode().partition("<secret>")[0]) and text.endswith(end.rpartition("<secret>")[2])


def test_the_rest_of_a_private_key_is_left_out() -> None:
    ends = "-----END " + "PRIVATE KEY-----"  # put together, so that this file has none
    assert pod_logs.end_of_log(f"c2VjcmV0\nc2VjcmV0\n{ends}\nstep 1\n", 1000) == "\nstep 1\n"
    whole = f"-----BEGIN PRIVATE {'KEY'}-----\nc2VjcmV0\n{ends}\nstep 1\n"
    assert pod_logs.end_of_log(whole, 1000) == whole, "the gate masks it"


def test_no_selector_is_not_all_pods_of_the_cluster() -> None:
    options = dict.fromkeys(pod_logs.LogCollectionSpec.__dataclass_fields__)
    with pytest.raises(InputError, match="selector is empty"):
        pod_logs.LogCollectionSpec.of({**options, "dest": "/x", "which": "all", "selector": ""})


def test_the_sentence_names_the_first_failure() -> None:
    result = {"found": 5, "collected": 2, "left_out": 2, "unread": ["w-1: 404 NotFound"]}
    assert pod_logs.format_collection_result(result) == (
        "2 of 5 pods' logs collected, 2 left out by the maximum, 1 could not be read, first: w-1: 404 NotFound"
    )


@pytest.mark.parametrize("name", ["../up", "/tmp/x", "a/../../up", "a\x1b[2J", "a\nb"])
def test_a_name_of_the_server_leads_to_no_file_outside_of_the_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    spec = pod_logs.LogCollectionSpec(str(folder), selector="a=b")
    collection = pod_logs.LogCollection(None, spec, SecretScanner({}))  # type: ignore[arg-type]  # asked for nothing
    collection._fetch = lambda _pod: b"written"  # type: ignore[method-assign]
    log = pod_logs.pod_log_file_name(pod(0, name=name), [pod(0, name=name)])
    row = collection._one(pod(0, name=name), folder, log, 1)
    assert "can't be that of a file here" in row["error"] and row["log"] is None
    assert collection._one(pod(0), folder, "w-0-master-0.log", 1)["log"] == "w-0-master-0.log"
    assert [path.name for path in tmp_path.rglob("*")] == ["logs", "w-0-master-0.log"]

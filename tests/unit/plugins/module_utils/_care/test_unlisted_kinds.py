# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clean-up of objects that the server does not show fails, or keeps what may contain them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import object_snapshots, run_cleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import missing_resources
from api_server_of_kinds import CONFIG_MAP, DEFINITION, METRICS, NAMESPACE, NOT_FOUND, TRAIN_JOB, KindsServer
from scripted_server import status_object

RUN = "t1129-abcdef"
OURS = {"labels": {run_labels.RUN: RUN}}
DEFINED = "trainjobs.trainer.example.com"
TRAINING = f"kind: TrainJob\napiVersion: {TRAIN_JOB.api_version}\nmetadata: {{name: mine, namespace: n}}\n"
STATUS = (404, status_object(404, "NotFound", "no"))
REFUSED = (403, status_object(403, "Forbidden", "no"))


@pytest.fixture(autouse=True)
def _short_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(missing_resources, "_LAG", 0.1)


def cleanup(server: KindsServer, folder: Path, verify: bool = False, manifests: str = TRAINING) -> dict[str, Any]:
    """Clean up a run that created these objects, and return the result."""
    source = folder / "004__fine_tuning__prepare" / "src"
    source.mkdir(parents=True, exist_ok=True)
    (source / "a.yml").write_text(manifests, encoding="utf-8")
    server.reply_to, before = (
        lambda method, path: (200, {"gitVersion": "v1.33.1"}) if path == "/version" else before(method, path),
        server.reply_to,
    )
    with server.client(folder):
        spec = run_cleanup.CleanupSpec(str(folder / "kubeconfig"), RUN, run_dir=str(folder), verify=verify, timeout=10)
        return run_cleanup.clean_up_or_verify(spec, StepDirectory(None))


def with_job() -> KindsServer:
    """Return a server that has a job of the run, in a namespace of others."""
    server = KindsServer(TRAIN_JOB)
    server.add(NAMESPACE, "n")
    server.add(DEFINITION, DEFINED)
    server.add(TRAIN_JOB, "mine", "n", **OURS)
    return server


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("answer", [STATUS, NOT_FOUND, (405, status_object(405, "MethodNotAllowed", "no")), (405, b"")])
def test_a_list_of_what_the_run_created_that_is_not_answered_ends_the_cleanup(
    tmp_path: Path, answer: Any, verify: bool
) -> None:
    server = with_job()
    server.reply_to = lambda method, path: answer if (method, path) == ("GET", TRAIN_JOB.path()) else None
    with pytest.raises(ApiError, match=f"GET {TRAIN_JOB.path()}: .*40[45]"):
        cleanup(server, tmp_path, verify)


@pytest.mark.parametrize("answer", [STATUS, NOT_FOUND, (405, b"")])
def test_a_list_that_is_not_answered_is_named_when_the_run_created_none_of_the_kind(
    tmp_path: Path, answer: Any
) -> None:
    server = with_job()
    server.reply_to = lambda _method, path: answer if path == CONFIG_MAP.path() else None
    assert cleanup(server, tmp_path)["unlisted"] == [f"ConfigMap ({405 if answer[0] == 405 else 404})"]


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("way", ["stale", "lost"])
def test_a_kind_of_the_run_that_the_discovery_lacks_ends_the_cleanup(tmp_path: Path, way: str, verify: bool) -> None:
    server = with_job()
    setattr(server, way, {TRAIN_JOB.api_version})
    lacking = f"all kinds of {TRAIN_JOB.api_version}" if way == "stale" else DEFINED
    with pytest.raises(
        ApiError, match=rf"created TrainJob \(trainer.example.com\).*discovery of http.* lacks {lacking}"
    ):
        cleanup(server, tmp_path, verify)


def test_a_kind_of_the_run_whose_definition_was_removed_is_gone(tmp_path: Path) -> None:
    assert cleanup(KindsServer(), tmp_path)["unlisted"] == []


def test_a_kind_of_the_run_that_may_be_there_is_named_without_permission_to_read_definitions(tmp_path: Path) -> None:
    server = KindsServer()
    server.reply_to = lambda _method, path: REFUSED if "customresourcedefinitions" in path else None
    config = "kind: Config\napiVersion: v1\n---\n"
    unlisted = cleanup(server, tmp_path, manifests=config + TRAINING)["unlisted"]
    assert unlisted == ["TrainJob (trainer.example.com)", "CustomResourceDefinition (403)"]


def test_a_broken_metrics_server_does_not_matter_without_aggregated_discovery(tmp_path: Path) -> None:
    server = KindsServer(TRAIN_JOB, METRICS, legacy=True)
    server.add(TRAIN_JOB, "mine", "n", **OURS)
    broken = (503, status_object(503, "ServiceUnavailable", "no"))
    server.reply_to = lambda _method, path: broken if path.startswith("/apis/metrics.k8s.io/") else None
    result = cleanup(server, tmp_path)
    assert (result["deleted"], result["unlisted"]) == ({"TrainJob": 1}, [])


@pytest.mark.parametrize("way", ["stale", "lost"])
def test_a_namespace_and_a_definition_stay_while_the_discovery_lacks_kinds_of_others(tmp_path: Path, way: str) -> None:
    server = KindsServer(TRAIN_JOB)
    server.add(NAMESPACE, "n", **OURS)
    server.add(DEFINITION, DEFINED, **OURS)
    server.add(TRAIN_JOB, "theirs", "n")
    setattr(server, way, {TRAIN_JOB.api_version})
    result = cleanup(server, tmp_path, manifests="kind: Namespace\napiVersion: v1\nmetadata: {name: n}\n")
    assert sorted(result["handed_over"]) == [f"CustomResourceDefinition {DEFINED}", "Namespace n"]
    assert len(server.objects) == 3


def test_a_definition_that_was_never_established_is_deleted(tmp_path: Path) -> None:
    server = KindsServer()
    server.add(DEFINITION, DEFINED, **OURS)
    server.objects[DEFINITION.path(name=DEFINED)]["status"] = {}
    assert cleanup(server, tmp_path)["deleted"] == {"CustomResourceDefinition": 1}


def test_what_a_run_created_is_read_with_its_api_groups(tmp_path: Path) -> None:
    source = tmp_path / "004__fine_tuning__prepare" / "src"
    source.mkdir(parents=True)
    (source / "a.yml").write_text(f"kind: Namespace\napiVersion: v1\n---\nkind: Odd\n---\n{TRAINING}", encoding="utf-8")
    point = tmp_path / "points" / "001"
    point.mkdir(parents=True)
    (point / "plan.jsonl").write_text(
        '{"type": "header", "templates": [{"kind": "Job", "api_version": "batch/v1"}, {"kind": "Old"}]}\n',
        encoding="utf-8",
    )
    assert set(run_cleanup.read_created_kinds(tmp_path)) == {
        ("", "Namespace"),
        (None, "Odd"),
        ("trainer.example.com", "TrainJob"),
        ("batch", "Job"),
        (None, "Old"),
    }


def test_a_snapshot_names_kinds_that_can_not_be_listed_or_discovered(tmp_path: Path) -> None:
    server = with_job()
    server.stale = {TRAIN_JOB.api_version}
    server.reply_to = lambda _method, path: (405, b"") if path == CONFIG_MAP.path() else None
    with server.client(tmp_path) as client:
        unlisted = object_snapshots.snapshot_all_objects(client).unlisted
    assert unlisted == ["ConfigMap", f"all kinds of {TRAIN_JOB.api_version}"]

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the environment of a CI job to its request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError, InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import ci_request
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext
from message_servers import GitHubStandIn, address
from scripted_server import ScriptedServer

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROOT = Path(__file__).parents[5]
EVENT = ROOT / "tests" / "support" / "events" / "issue_comment.json"
PROW = {
    "OPENSHIFT_CI": "true",
    "JOB_NAME": "pull-ci-example-product-main-light",
    "JOB_NAME_SAFE": "light",
    "BUILD_ID": "1859",
    "REPO_OWNER": "example",
    "REPO_NAME": "product",
    "PULL_NUMBER": "12",
    "PULL_PULL_SHA": "c0ffee",
}
ACTIONS = {"GITHUB_ACTIONS": "true", "GITHUB_JOB": "seatrial", "GITHUB_RUN_ID": "7", "GITHUB_SHA": "ofmain"}


def _presets() -> dict[str, Any]:
    folder, presets = ROOT / "group_vars" / "all", dict[str, Any]()
    for project in ("fine_tuning", "serving", "workload_scale"):
        presets |= yaml.safe_load((folder / f"{project}_presets.yml").read_text(encoding="utf-8"))
    return presets


def options(**more: Any) -> dict[str, Any]:
    texts = dict.fromkeys(("engine", "project", "test", "export_url"), "")
    lists: dict[str, Any] = {name: [] for name in ("presets", "users", "permitted_presets")}
    found = {**texts, **lists, "event_file": None, "clusters": {}, "variables": {}, "github": {}}
    return {**found, "associations": ["MEMBER", "COLLABORATOR"], "read_pull_request": False, **more}


def find_context(project: str, words: Mapping[str, Any]) -> SettingsContext:
    loader = DataLoader()
    return SettingsContext.of(project, {**_presets(), **words}, {}, loader, Templar(loader=loader))


def read(environ: dict[str, str], **more: Any) -> dict[str, Any]:
    return ci_request.read_request(options(**more), _presets(), environ, find_context)


def changed(tmp_path: Path, comment: str, association: str = "MEMBER") -> str:
    document = json.loads(EVENT.read_text(encoding="utf-8"))
    document["comment"].update(body=comment, author_association=association)
    (tmp_path / "event.json").write_text(json.dumps(document), encoding="utf-8")
    return str(tmp_path / "event.json")


def test_a_recorded_event_gives_request_and_job() -> None:
    found = read({**ACTIONS, "GITHUB_EVENT_PATH": str(EVENT)}, export_url="s3://results/ci/")
    assert found["run"] and (found["project"], found["presets"], found["skip"]) == ("workload_scale", [], [])
    expected = {"workload_scale_count": 3, "fake_gpu_nodes": 1, "workload_scale_run_seconds": 1}
    assert found["overrides"] == expected and found["notes"] == []
    assert found["export_url"] == "s3://results/ci/pull/example_product/12/seatrial/7"
    assert found["job"]["revision"] == ""  # not that of the default branch


def test_help_is_answered_and_runs_nothing(tmp_path: Path) -> None:
    found = read(ACTIONS, event_file=changed(tmp_path, "/help"), project="fine_tuning")
    assert not found["run"] and found["help"] and "Presets of fine_tuning" in found["answer"]


def test_a_comment_without_a_request_runs_nothing(tmp_path: Path) -> None:
    found = read(ACTIONS, event_file=changed(tmp_path, "Thanks!", "NONE"), project="fine_tuning")
    assert not found["run"] and not found["help"] and "asks for no run" in found["answer"]


@pytest.mark.parametrize("lost", ["pull_request", "issue"])
def test_a_comment_on_something_else_than_a_pull_request_runs_nothing(tmp_path: Path, lost: str) -> None:
    document = json.loads(EVENT.read_text(encoding="utf-8"))
    document.pop(lost, None)
    document.get("issue", {}).pop("pull_request", None)
    (tmp_path / "event.json").write_text(json.dumps(document), encoding="utf-8")
    found = read(ACTIONS, event_file=str(tmp_path / "event.json"), project="fine_tuning", presets=["keep"])
    assert not found["run"] and "it is not on a pull request" in found["answer"]


def test_a_job_without_an_event_runs_its_own_request() -> None:
    found = read({}, project="fine_tuning", presets=["keep"])
    assert (found["run"], found["presets"], found["job"]["engine"]) == (True, ["keep"], "terminal")


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_an_unreadable_event_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "event.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError):
        read({}, event_file=str(tmp_path / "event.json"), project="fine_tuning")


def github(server: ScriptedServer, token: str = "t0ken-of-tests") -> dict[str, str]:
    return {"api_url": address(server), "token": token}


def test_without_an_event_the_pull_request_is_read_from_github() -> None:
    people = {"MEMBER": "ann", "NONE": "eve"}
    stand_in = GitHubStandIn(body=("MEMBER", "/var fine_tuning_gpus: 2"))
    texts = [("MEMBER", "/test light fine_tuning light\n/var fine_tuning_count: 3"), ("NONE", "/test light scheduler")]
    texts += [("MEMBER", "thanks")] * 120 + [("MEMBER", "/help")]
    stand_in.authors = {number: (people[who], who) for number, (who, _text) in enumerate(texts)}
    stand_in.comments = {number: text for number, (_who, text) in enumerate(texts)}
    with ScriptedServer(stand_in.answer) as server:
        found = read(PROW, read_pull_request=True, github=github(server))
    assert found["run"] and (found["project"], found["presets"]) == ("fine_tuning", ["light"])
    assert found["overrides"] == {"fine_tuning_count": 3, "fine_tuning_gpus": 2}
    assert found["notes"] == ["a comment of eve (NONE) is ignored: ci_associations and ci_users name who may ask"]
    assert found["job"]["path"] == "pull/example_product/12/pull-ci-example-product-main-light/1859"


def test_a_pull_request_that_cannot_be_read_is_an_error() -> None:
    with ScriptedServer(GitHubStandIn().answer) as server, pytest.raises(AccessError, match="401"):
        read(PROW, read_pull_request=True, github=github(server, "wrong"), project="fine_tuning")


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("/test fine_tuning light\n/var fine_tuning_count: 1000", "point 001 has 2,000 pods (at most 500)"),
        ("/test fine_tuning light\n/var fine_tuning_rate: 100", ""),
        (
            "/test fine_tuning light\n/var fine_tuning_count: 100\n/var fine_tuning_rate: 90",
            "pods in a second (at most 50)",
        ),
        (
            "/test fine_tuning light\n/var fine_tuning_rate: 0\n/var fine_tuning_pod_count: 1"
            "\n/var fine_tuning_in_flight: 500\n/var fine_tuning_count: 500",
            "point 001 sends 500 pods in a second (at most 50)",
        ),
        ("/test serving\n/var serving_arrival.rate: 100000", "sends 100,000 requests in a second (at most 500)"),
        ("/test serving light\n/var serving_streams: 10000", "point 001 has 10,000 streams (at most 300)"),
        (
            "/test serving light\n/var serving_streams: 4\n/var serving_duration: 86400",
            "4 streams without a number of requests for 24 h 0 min (at most 300,000 seconds of all streams)",
        ),
        (
            "/test serving light\n/var serving_streams: 4\n/var serving_count: 60000\n/var serving_turns: 2",
            "point 001 has 120,004 requests (at most 100,000)",
        ),
        ("/test serving light\n/var serving_streams: 4\n/var serving_duration: 60", ""),
        ("/test serving slo_light", ""),
        ("/test workload_scale light\n/var workload_scale_sandbox_pool: 10000", "pods (at most 500)"),
        (
            "/test fine_tuning light\n/var fake_gpu_nodes: 100\n/var fake_gpu_gpus_per_node: 101",
            "point 001 has 10,100 simulated GPUs (at most 10,000)",
        ),
        ("/test fine_tuning light\n/var fake_gpu_nodes: 101", "point 001 has 101 simulated nodes (at most 100)"),
        ("/test fine_tuning light\n/var matrix: {fine_tuning_pod_count: [1, 60]}", "point 002 has 720 pods"),
        ("/test fine_tuning light\n/var repeat: {max: 200}", "200 attempts at points"),
        ("/var fine_tuning_count: 1000\n/test fine_tuning", "point 001 has 1,000 pods"),
        ("/test fine_tuning light\n/var fine_tuning_run_seconds: 100000000", "point 001 has workloads for"),
        (
            "/test fine_tuning light\n/var fine_tuning_rate: 0.0001\n/var fine_tuning_timeout: 86400",
            "point 001 has workloads for",
        ),
        (
            "/test fine_tuning light\n/var fine_tuning_timeout: 86401",
            "point 001 waits for 24 h 0 min (fine_tuning_timeout; at most 24 h)",
        ),
        ("/test users\n/var users_ready_timeout: 1000000", "users_ready_timeout; at most 24 h"),
        (
            "/test fine_tuning light\n/var matrix: {fine_tuning_gpus: [1, 2, 4, 8]}"
            "\n/var fine_tuning_run_seconds: 14000\n/var repeat: {max: 8}",
            "its points keep the cluster for",
        ),
        (
            "/test fine_tuning light\n/var fine_tuning_run_seconds: 14000\n/var repeat: {max: 50}",
            "its points keep the cluster for",
        ),
        (
            "/test users\n/var users_iterations: 1000000\n/var users_timeout: 86400\n/var matrix: {users_seed: [1, 2]}",
            "its points keep the cluster for 48 h",
        ),
        (
            "/test serving\n/var serving_count: 200\n/var serving_shared_prefix_tokens: 1000000",
            "point 001 has 200,000,000 tokens of shared prefixes (at most 100,000,000)",
        ),
        (
            "/test serving light\n/var serving_streams: 4\n/var serving_duration: 60"
            "\n/var serving_shared_prefix_tokens: 1000000",
            "point 001 has 240,000,000 tokens of shared prefixes",
        ),
        ("/test fine_tuning light\n/var fine_tuning_run_seconds: 3600", ""),
        ("/test fine_tuning light\n/var fine_tuning_count: 20", ""),
    ],
)
def test_the_load_decides_whether_a_run_is_heavy(tmp_path: Path, comment: str, words: str) -> None:
    path = changed(tmp_path, comment)
    if not words:
        assert read(ACTIONS, event_file=path)["run"]
        return
    with pytest.raises(InputError) as caught:
        read(ACTIONS, event_file=path)
    assert "the run would be heavy: " in str(caught.value) and words in str(caught.value)


def test_the_load_of_another_project_decides_too(tmp_path: Path) -> None:
    def with_inventory(project: str, words: Mapping[str, Any]) -> SettingsContext:
        return find_context(project, {**words, "fine_tuning_count": 501})

    event = changed(tmp_path, "/test seatrial\n/project fine_tuning")
    given = options(event_file=event, test="seatrial", project="workload_scale")
    with pytest.raises(InputError, match="/test in line 1 .* the run would be heavy: .* 501 pods"):
        ci_request.read_request(given, _presets(), ACTIONS, with_inventory)


def test_a_lab_that_permits_a_heavy_preset_permits_its_load(tmp_path: Path) -> None:
    path = changed(tmp_path, "/test fine_tuning many_jobs\n/var fine_tuning_count: 900")
    assert read(ACTIONS, event_file=path, permitted_presets=["many_jobs"])["presets"] == ["many_jobs"]
    other = changed(tmp_path, "/test fine_tuning light\n/var fine_tuning_count: 900")
    with pytest.raises(InputError, match="the run would be heavy"):
        read(ACTIONS, event_file=other, permitted_presets=["many_jobs", "light"])


def test_what_can_not_be_resolved_is_refused_with_the_request(tmp_path: Path) -> None:
    path = changed(tmp_path, "/test fine_tuning light\n/var fine_tuning_count: 100000000")
    with pytest.raises(InputError, match="fine_tuning_count is 100000000, and it must be 0 to 1,000,000"):
        read(ACTIONS, event_file=path)

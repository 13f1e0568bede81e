# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/ci.yml as a CI engine runs it, by recorded events: what is run, what is refused, what stays text."""

from __future__ import annotations

import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import setting_templates
from ci_job import Job, begin, ended
from message_servers import GitHubStandIn, SlackStandIn, address
from playbook import ROOT, play, run_dirs
from scripted_server import ScriptedServer

EVENTS = Path(__file__).parents[1] / "support" / "events"
#: Variables of a job of GitHub Actions.
ACTIONS = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_REPOSITORY": "example/product",
    "GITHUB_JOB": "seatrial",
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_SERVER_URL": "https://github.example.com",
    "TEST_NAME": "",
}


def event(folder: Path, comment: str, association: str = "MEMBER", body: str = "") -> Path:
    """The recorded event of a comment with other texts."""
    document: dict[str, Any] = json.loads((EVENTS / "issue_comment.json").read_text(encoding="utf-8"))
    document["comment"].update(body=comment, author_association=association)
    document["issue"].update(body=body)
    path = folder / "event.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def job(folder: Path, path: Path, *words: str, **settings: Any) -> Job:
    env = {**ACTIONS, "GITHUB_EVENT_PATH": str(path)}
    return ended(folder, begin(folder, "ci", *words, env=env, **settings))


@contextlib.contextmanager
def services(folder: Path) -> Iterator[tuple[GitHubStandIn, SlackStandIn, dict[str, Any]]]:
    """GitHub and Slack, and the settings of the messages to them."""
    hub, chat = GitHubStandIn(), SlackStandIn()
    with ScriptedServer(hub.answer) as github, ScriptedServer(chat.answer) as slack:
        settings = {
            "notify_services": ["github", "slack"],
            "notify_github_api_url": address(github),
            "notify_slack_api_url": address(slack),
            "notify_slack_channel": chat.channel,
        }
        for name, token in (("notify_github_token", "t0ken-of-tests"), ("notify_slack_token", chat.token)):
            (folder / name).write_text(token, encoding="utf-8")
            settings[f"{name}_file"] = str(folder / name)
        yield hub, chat, settings


def test_a_recorded_event_of_github_runs_to_a_pass(tmp_path: Path, rehearsal_folder: Path) -> None:
    settings = {
        "rehearsal_components": [],
        "rehearsal_name": "ci-event",
        "rehearsal_data_dir": str(rehearsal_folder),
        "workload_max_lateness": 60,  # how busy this machine is says nothing of the playbook
    }
    with services(tmp_path) as (hub, chat, told):
        done = job(tmp_path, EVENTS / "issue_comment.json", **settings, **told)
    (comment,), (check,) = hub.comments.values(), hub.checks.values()
    root, *replies = chat.messages
    assert "example/product#12" in root["text"] and "thread_ts" not in root, "one thread for each pull request"
    assert {one["thread_ts"] for one in replies} == {root["ts"]} and "pass" in replies[-1]["text"]
    assert "\n# pass: workload\\_scale" in comment and "- job: https://github.example.com/" in comment
    assert (check["conclusion"], check["head_sha"]) == ("success", "c0ffee")
    assert done.status == 0, done.output[-4000:]
    assert done.last.startswith("pass (exit 0): ")
    (run_dir,) = run_dirs(tmp_path)
    assert run_dir.name.startswith("workload_scale-")
    found = files.read_yaml(run_dir / "settings.yml")
    assert (found["workload_scale_count"], found["workload_scale_gpus"], found["fake_gpu_nodes"]) == (3, 1, 1)
    phases = files.read_yaml(run_dir / "run.yml")["phases"]
    assert {"prepare", "test", "report", "cleanup", "release"} <= set(phases)


ATTACKS = [
    "{{ lookup('pipe', 'touch MARK') }}",
    "{{ lookup('ansible.builtin.pipe', 'touch MARK') }}",
    "{% set x = lookup('pipe', 'touch MARK') %}",
    "{{ cycler.__init__.__globals__.os.system('touch MARK') }}",
    "$(touch MARK)",
    "`touch MARK`",
    "; touch MARK",
    '"; touch MARK; "',
]


def test_a_template_that_a_lab_lets_through_stays_text(tmp_path: Path, rehearsal_folder: Path) -> None:
    """The lab permits any text, so that only the marking as text is left as a protection."""
    mark = tmp_path / "mark"
    texts = [one.replace("MARK", str(mark)) for one in ATTACKS]
    lines = [f"/var fine_tuning_environment: {json.dumps({f'A{n}': text for n, text in enumerate(texts)})}"]
    lines += [f"/var fine_tuning_model_name: {json.dumps(texts[0])}", "/test fine_tuning light"]
    settings = {
        "ci_event_file": str(event(tmp_path, "\n".join(lines))),
        "ci_variables": dict.fromkeys(("fine_tuning_environment", "fine_tuning_model_name"), "(?s).*"),
        "fine_tuning_api": "job",  # needs no component
        "rehearsal_name": "ci-text",
        "rehearsal_data_dir": str(rehearsal_folder),
    }
    path = ROOT / "playbooks" / "ci.yml"
    done = play("-e", json.dumps(settings), "--tags", "cluster,release", artifacts=tmp_path, path=path)
    assert done.code == 0 and not mark.exists(), done.output
    (run_dir,) = run_dirs(tmp_path)
    found = setting_templates.load_yaml_with_unsafe(run_dir / "settings.yml")
    assert list(found["fine_tuning_environment"].values()) == texts
    assert isinstance(found["fine_tuning_model_name"], setting_templates.UnsafeText)


@pytest.mark.parametrize(
    ("comment", "association", "reason"),
    [
        ("/test workload_scale light", "NONE", "(NONE) may not ask for a run"),
        ("/test workload_scale light\n/var cluster_kubeconfig: /etc/lab/kubeconfig", "MEMBER", "it is a path"),
        pytest.param("/test workload_scale ligth", "MEMBER", "did you mean 'light'?", marks=pytest.mark.long),
        pytest.param(
            "/test workload_scale light\n/skip tset", "MEMBER", "did you mean 'test'?", marks=pytest.mark.long
        ),
    ],
)
def test_what_may_not_be_asked_for_ends_with_3_and_creates_nothing(
    tmp_path: Path, comment: str, association: str, reason: str
) -> None:
    done = job(tmp_path, event(tmp_path, comment, association))
    assert done.status == 3, done.output[-4000:]
    assert done.last.startswith("error (exit 3): ") and reason in done.last
    assert run_dirs(tmp_path) == []


@pytest.mark.parametrize(
    ("comment", "answer"),
    [
        pytest.param("/help", "Directives, each", marks=pytest.mark.long),
        ("Thanks!", "The comment asks for no run"),
    ],
)
def test_a_comment_that_asks_for_no_run_is_answered_and_ends_with_0(tmp_path: Path, comment: str, answer: str) -> None:
    done = job(tmp_path, event(tmp_path, comment, "NONE" if comment == "Thanks!" else "MEMBER"))
    assert done.status == 0, done.output[-4000:]
    assert done.last.startswith("no run (exit 0): ") and answer in done.output
    assert run_dirs(tmp_path) == [] and done.cases("error") == {}


def test_help_is_answered_by_a_comment_on_the_pull_request(tmp_path: Path) -> None:
    with services(tmp_path) as (hub, _chat, told):
        done = job(tmp_path, event(tmp_path, "/help"), ci_project="workload_scale", **told)
    assert done.status == 0, done.output[-4000:]
    (comment,) = hub.comments.values()
    assert "/test" in comment and "light" in comment and "workload_scale_count" in comment
    assert hub.checks == {} and run_dirs(tmp_path) == []


@pytest.mark.long
def test_an_interrupted_job_gives_back_and_says_so(tmp_path: Path, rehearsal: Any) -> None:
    load = "/test workload_scale\n/var workload_scale_run_seconds: 3600\n/var workload_scale_gpus: 0"
    existing = {"cluster_provider": "existing", "cluster_kubeconfig": rehearsal.kubeconfig, "doctor_fail": False}
    path = event(tmp_path, load)
    with services(tmp_path) as (hub, chat, told):
        env = {**ACTIONS, "GITHUB_EVENT_PATH": str(path)}
        process = begin(tmp_path, "ci", env=env, **existing, **told)
        deadline = time.monotonic() + 300
        while not any(one.stat().st_size for one in tmp_path.glob("*/points/001/ledger.jsonl")):
            assert time.monotonic() < deadline and process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        done = ended(tmp_path, process)
    assert (done.status, done.last) == (3, "error (exit 3): ended by SIGTERM"), done.output[-4000:]
    (run_dir,) = run_dirs(tmp_path)
    assert files.read_yaml(run_dir / "run.yml")["held"] == []
    (check,), (comment,) = hub.checks.values(), hub.comments.values()
    assert check["conclusion"] == "cancelled" and "till held" not in comment
    root, *replies = chat.messages
    assert len(replies) > 1 and {one["thread_ts"] for one in replies} == {root["ts"]}

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server that only a stranger's run directory names gets no secret of this session."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import role_call_record, run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run.open_run import SettingsSession
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import project_role, settings_naming_servers
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_catalogue import load_catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.settings_from_ansible import SettingsContext

pytestmark = pytest.mark.usefixtures("ansible_plugins")
LOADER = DataLoader()
PHASES = ["settings", "lease", "cluster", "prepare", "test", "report", "cleanup", "release", "export"]
STRANGE = "http://127.0.0.1:9/strange"
#: Setting with an address, secret, phase that sends it.
SENT = [
    ("metrics_url", "metrics_token", "report"),
    ("notify_slack_api_url", "notify_slack_token", "cleanup"),
    ("notify_github_api_url", "notify_github_token", "report"),
    ("export_opensearch_url", "export_opensearch_password", "export"),
    ("export_mlflow_url", "export_mlflow_token", "export"),
    ("export_otlp_url", "export_otlp_token", "export"),
]


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
    """A run whose session has ended, and whose request names servers."""
    directory = Path(begin(tmp_path, ["all"], {})["run_dir"])
    run_record.update_record(directory, lambda record: record["sessions"][0].update(began=0.0))
    request = files.read_yaml(directory / "request.yml")
    [layer] = [layer for layer in request["layers"] if layer["kind"] == "extra"]
    layer["values"] |= {address: STRANGE for address, _secret, _phase in SENT}
    files.write_yaml(directory / "request.yml", request)
    return directory


@pytest.fixture
def received(tmp_path: Path, own: Path) -> Path:
    """The run directory, unpacked elsewhere."""
    return Path(shutil.copytree(own, tmp_path / "received"))


@pytest.mark.parametrize(("address", "secret", "phase"), SENT)
def test_a_secret_is_sent_only_where_the_session_says(
    tmp_path: Path, received: Path, monkeypatch: pytest.MonkeyPatch, address: str, secret: str, phase: str
) -> None:
    extra = {"run_dir": str(received)}
    before = (received / "run.yml").read_text()
    monkeypatch.setenv(f"SEATRIAL_{secret.upper()}", "canary-1234")
    with pytest.raises(InputError, match=f"{address} names the server .*{secret} of this session would be sent"):
        begin(tmp_path, [phase], extra)
    assert (received / "run.yml").read_text() == before
    assert begin(tmp_path, ["settings"], extra)["run_dir"] == str(received)
    accepted = begin(tmp_path, [phase], extra, **{address: STRANGE})  # of the inventory
    assert accepted["run_dir"] == str(received)


def test_the_command_that_gives_back_names_the_servers_again(tmp_path: Path, received: Path) -> None:
    begin(tmp_path, ["report"], {"run_dir": str(received), "notify_slack_api_url": STRANGE})
    assert f'"notify_slack_api_url": "{STRANGE}"' in (received / "GIVE_BACK").read_text()


def test_a_running_session_of_a_received_run_is_not_believed(tmp_path: Path, received: Path) -> None:
    """A report beside one takes servers from settings.yml as it is. Any process can be named, and any time."""
    document = files.read_yaml(received / "run.yml")

    def say(pid: object, process: int) -> None:
        session = {
            "pid": pid,
            "began": run_record.started_of_process(process),
            "command": "x",
            "started": "",
            "tags": [],
        }
        files.write_yaml(received / "run.yml", {**document, "sessions": [session]})

    child = subprocess.Popen(["sleep", "600"])
    try:
        say(child.pid, child.pid)
        with pytest.raises(InputError, match=f"still being worked on by process {child.pid}"):
            begin(tmp_path, ["report"], {"run_dir": str(received)})
    finally:
        child.kill()
        child.wait()
    say("self", os.getpid())
    assert run_record.find_running_session(received) is None


def test_without_a_secret_a_received_run_is_reported_and_exported(tmp_path: Path, received: Path) -> None:
    assert begin(tmp_path, ["report", "export"], {"run_dir": str(received)})["run_dir"] == str(received)


def test_a_report_sends_no_secret_of_exports(tmp_path: Path, received: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_EXPORT_OTLP_TOKEN", "canary-1234")
    assert begin(tmp_path, ["report"], {"run_dir": str(received)})["run_dir"] == str(received)


def test_an_own_run_keeps_its_servers(tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_METRICS_TOKEN", "canary-1234")
    assert begin(tmp_path, ["report"], {"run_dir": str(own)})["run_dir"] == str(own)


def name_in_request(directory: Path, values: dict[str, Any]) -> None:
    """Replace what ``-e`` of the first session has set."""
    request = files.read_yaml(directory / "request.yml")
    [layer] = [layer for layer in request["layers"] if layer["kind"] == "extra"]
    layer["values"] = values
    files.write_yaml(directory / "request.yml", request)


def assert_accepted(tmp_path: Path, tags: list[str], directory: Path, named: dict[str, Any]) -> None:
    """Begin a session with what ``-e`` names, and end it."""
    assert begin(tmp_path, tags, {"run_dir": str(directory), **named})["run_dir"] == str(directory)
    run_record.update_record(directory, lambda record: record["sessions"][-1].update(began=0.0))


@pytest.mark.parametrize(
    ("source", "address", "secret"),
    [
        ("opensearch", "export_opensearch_url", "export_opensearch_token"),
        ("opensearch", "export_opensearch_url", "export_opensearch_password"),
        ("s3://results/nightly", "export_s3_endpoint", "export_s3_secret_key"),
        ("s3://results/nightly", "export_s3_endpoint", ""),  # boto3 finds others, and sends their session token
    ],
)
def test_the_report_sends_no_secret_to_a_history_of_a_received_run(
    tmp_path: Path, received: Path, monkeypatch: pytest.MonkeyPatch, source: str, address: str, secret: str
) -> None:
    extra = {"run_dir": str(received)}
    name_in_request(received, {"results_history": [source], address: STRANGE})
    if secret:
        monkeypatch.setenv(f"SEATRIAL_{secret.upper()}", "canary-1234")
    with pytest.raises(InputError, match=f"{address} names the server {STRANGE}, to which {secret or 'the AWS'}"):
        begin(tmp_path, ["report"], extra)
    assert_accepted(tmp_path, ["report"], received, {address: STRANGE})


def test_the_export_writes_to_no_bucket_of_a_received_run(tmp_path: Path, received: Path) -> None:
    extra, bucket = {"run_dir": str(received)}, "s3://results/nightly"
    name_in_request(received, {"export_s3_url": bucket})
    assert_accepted(tmp_path, ["report"], received, {})
    with pytest.raises(InputError, match=f"export_s3_url names the server {bucket}, to which the AWS credentials"):
        begin(tmp_path, ["export"], extra)
    assert_accepted(tmp_path, ["export"], received, {"export_s3_url": bucket})


@pytest.mark.parametrize(
    ("service", "place", "text"),
    [
        ("github", "notify_github_repository", "other/product"),
        ("github", "notify_github_pull_request", "12"),
        ("github", "notify_github_revision", "c0ffee"),
        ("github", "notify_github_check", "required"),
        ("slack", "notify_slack_channel", "C012345"),
    ],
)
def test_a_received_run_has_no_message_sent_elsewhere(
    tmp_path: Path, received: Path, monkeypatch: pytest.MonkeyPatch, service: str, place: str, text: str
) -> None:
    """By the right of the token a stranger could write a comment, or a check run that passes."""
    extra = {"run_dir": str(received)}
    name_in_request(received, {"notify_services": [service], place: text})
    assert_accepted(tmp_path, ["report"], received, {"notify_services": [service]})  # without a token nothing is sent
    monkeypatch.setenv(f"SEATRIAL_NOTIFY_{service.upper()}_TOKEN", "canary-1234")
    with pytest.raises(InputError, match=f"{place} names the place {text}, to which a message with .*or none: -e"):
        begin(tmp_path, ["report"], extra)
    number = int(text) if text.isdecimal() else text
    for named in ({place: text}, {place: number}, {"notify_services": []}):
        assert_accepted(tmp_path, ["report"], received, named)


def test_a_role_call_of_a_received_run_sends_no_secret_to_its_server(
    tmp_path: Path, own: Path, received: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = f"step_role: perfscale.seatrial.metrics\nstep_entry: main\nmetrics_url: {STRANGE}\n"
    for directory in (own, received):
        (directory / "settings.yml").unlink()
        (directory / "001__metrics__main").mkdir()
        (directory / "001__metrics__main" / "arguments.yml").write_text(call)
    known = context_of(tmp_path, ["all"], {})
    assert role_call_record.check_recorded_call(received / "001__metrics__main", known)["entry"] == "main"
    monkeypatch.setenv("SEATRIAL_METRICS_TOKEN", "canary-1234")
    assert role_call_record.check_recorded_call(own / "001__metrics__main", known)["entry"] == "main"
    with pytest.raises(InputError, match="metrics_url names the server"):
        role_call_record.check_recorded_call(received / "001__metrics__main", known)


def test_each_address_and_secret_is_a_setting() -> None:
    known: dict[str, Any] = {}
    for project in ("fine_tuning", "serving"):
        role = project_role.find_role(f"perfscale.seatrial.{project}")
        known |= load_catalogue(project_role.ROOT, role).settings
    for address, receiver in settings_naming_servers.RECEIVERS.items():
        assert address in known
        assert all(known[secret].secret for secret in receiver.secrets), address


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"metrics_url": "https://a"}, {("metrics_url", "https://a")}),
        ({"metrics_url": ""}, set()),
        (
            {"matrix": {"serving_url": ["https://a", "https://b"]}},
            {("serving_url", f"https://{name}") for name in "ab"},
        ),
        ({"overrides": {"metrics_url": "https://a"}}, {("metrics_url", "https://a")}),
        ({"storage_registries": {"lab": "https://a/"}}, {("storage_registries", "https://a/")}),
        ({"storage_sources": ["hf://a/b", {"source": "http://a/b"}]}, {("storage_sources", "http://a/b")}),
        ({"storage_sources[0].source": "https://a"}, {("storage_sources", "https://a")}),
    ],
)
def test_addresses_are_found_wherever_they_are_set(values: dict[str, Any], named: set[tuple[str, str]]) -> None:
    assert settings_naming_servers.known_addresses([values]) == named

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles sample, workload, workload_scale and users refuse before a run begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import (
    checks_declared_by_roles,
    setting_templates,
)

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROLES = Path(__file__).parents[3] / "roles"
USUAL = {
    **yaml.safe_load((ROLES / "users" / "defaults" / "main.yml").read_text()),
    "users_image": "localhost/image:1",
    "users_command": ["true"],
    "users_namespace": "team-a",
    "workload_clients": 1,
    "workload_collect_s3": "",
    "sample_stages": ["Job", "Pod"],
    "sample_namespaces": [],
    "sample_canary_namespace": "",
    "sample_label_selector": "",
    "sample_field_selector": "",
    "workload_run_on": "controller",
    "workload_driver_image": "",
    "workload_scale_projects": [{"name": "one", "namespace": ""}],
    "workload_scale_count": 100,
}


def problem(**settings: Any) -> checks_declared_by_roles.Problem | None:
    render = setting_templates.create_template_renderer(Templar(loader=DataLoader()), {})
    checks = [
        one
        for role in ("sample", "workload", "workload_scale", "users")
        for one in checks_declared_by_roles.read_checks(ROLES / role / "meta/checks.yml")
    ]
    return checks_declared_by_roles.first_refused_setting(checks, {**USUAL, **settings}, render)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sample_stages", [{"use": "Job"}]),
        ("sample_namespaces", ["a", "team-1", "x" * 63]),
        ("sample_canary_namespace", "team-a"),
        ("sample_label_selector", "app=x"),
        ("sample_label_selector", "kube-burner-uuid=5f2c-1, !x , tier!=a_b.C,k8s.io/name==v,app"),
        ("sample_label_selector", "app in (a, b),a.b/c notin (c)"),
        ("sample_label_selector", "app="),
        ("sample_field_selector", "metadata.name=a"),
        ("sample_field_selector", "metadata.name!=a,status.phase==Running"),
        ("workload_scale_projects", [{"name": "a-1", "namespace": ""}, {"name": "b", "namespace": "team-b"}]),
        ("users_required", "100 %"),
        ("users_required", "99.5%"),
        ("users_required", 10),
        ("users_environment", {"A_1": "x", "_b": 2}),
        ("users_environment", {"A": True, "B": 1.5}),
        ("users_secrets", [{"name": "a.b-1"}, {"name": "c", "path": "/c"}]),
        ("users_secrets", [{"name": "a"}, {"name": "b"}, {"name": "c", "path": "/c"}, {"name": "d", "path": "/d"}]),
        ("users_rules", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}]),
        ("users_release", {"type": "closed", "batch": 2, "delay": 1}),
        ("workload_collect_s3", "s3://bucket"),
        ("users_files_s3_limit_bytes", 5 * 1024**3),
    ],
)
def test_valid_values_pass(name: str, value: Any) -> None:
    assert problem() is None and problem(**{name: value}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sample_stages", []),
        ("sample_namespaces", ["team-a", "team_b"]),
        ("sample_namespaces", ["Team"]),
        ("sample_namespaces", [""]),
        ("sample_canary_namespace", "-a"),
        ("sample_label_selector", "app in training"),
        ("sample_label_selector", "app = a b"),
        ("sample_label_selector", "app=a;tier=b"),
        ("sample_label_selector", "=x"),
        ("sample_label_selector", "app=a,"),
        ("sample_field_selector", "metadata.name"),
        ("sample_field_selector", "metadata.name=a,"),
        ("workload_scale_projects", [{"name": "a_b", "namespace": ""}]),
        ("workload_scale_projects", [{"name": "a", "namespace": "Team"}]),
        ("workload_clients", 2),
        ("users_count", 0),
        ("users_image", ""),
        ("users_command", []),
        ("users_required", "101 %"),
        ("users_required", "0 %"),
        ("users_required", "11"),
        ("users_required", "most"),
        ("users_environment", {"A-B": 1}),
        ("users_environment", {"SEATRIAL_INDEX": 1}),
        ("users_environment", {"A": {"b": 1}}),
        ("users_environment", {"A": [1]}),
        ("users_rules", [{"apiGroup": [""], "resources": ["pods"], "verbs": ["get"]}]),
        ("users_behaviour", "/nowhere/behaviour.yml"),
        ("users_secrets", [{"name": "Token"}]),
        ("users_secrets", [{"name": "token", "path": "relative"}]),
        ("users_secrets", [{"name": "a", "path": "/x"}, {"name": "b", "path": "/x"}]),
        ("users_files", "work"),
        ("users_files_limit_bytes", 0),
        ("users_files_s3_limit_bytes", 5 * 1024**3 + 1),
        ("workload_collect_s3", "bucket/prefix"),
        ("workload_collect_s3", "s3:///prefix"),
        ("users_release", {"type": "closed", "at_once": 2}),
    ],
)
def test_an_invalid_value_is_refused_and_named(name: str, value: Any) -> None:
    found = problem(**{name: value})
    assert (
        found is not None
        and found[0] == name
        and found[1].startswith(f"{name} is {value if value != '' else 'empty'}: ")
    )


@pytest.mark.parametrize(
    ("settings", "name", "words"),
    [
        ({"workload_clients": 0}, "workload_clients", "needs one client or more"),
        ({"workload_clients": 2, "workload_run_on": "bastion"}, "workload_clients", "on another host"),
        ({"workload_clients": 101}, "workload_clients", "fewer workloads (workload_scale_count) than clients"),
        ({"workload_run_on": "driver_pod"}, "workload_driver_image", "append preset driver_pods"),
    ],
)
def test_clients_that_cannot_run_are_refused(settings: dict[str, Any], name: str, words: str) -> None:
    found = problem(**settings)
    assert found is not None and found[0] == name and words in found[1]


def test_the_file_of_a_behaviour_has_to_be_complete(tmp_path: Path) -> None:
    file = tmp_path / "behaviour.yml"
    file.write_text("path: /apis/example.com/v1/namespaces/{namespace}/things\n", encoding="utf-8")
    found = problem(users_behaviour=str(file), users_command=[])
    assert found is not None and found[0] == "users_behaviour" and "the file lacks" in found[1]
    for own in ("notebook", "pipeline_run"):
        text = (ROLES / "users" / "files" / "behaviours" / f"{own}.yml").read_text(encoding="utf-8")
        file.write_text(text, encoding="utf-8")
        assert problem(users_behaviour=str(file), users_command=[]) is None


def test_a_secret_is_not_mounted_where_the_files_are() -> None:
    found = problem(users_secrets=[{"name": "a", "path": "/data"}], users_files="/data")
    assert found is not None and found[0] == "users_secrets"


def test_an_upload_that_cannot_succeed_is_refused() -> None:
    given = {"workload_collect_s3": "s3://bucket/prefix", "users_files": "/data"}
    assert problem(**given) is None
    found = problem(**given, users_files_s3_limit_bytes=1000)
    assert found is not None and found[0] == "users_files_s3_limit_bytes" and "users_files_limit_bytes" in found[1]
    found = problem(**given, users_timeout=86400)
    assert found is not None and found[0] == "users_timeout" and "more than a day" in found[1]

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selectors and namespaces of role sample are checked before a run begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import collect_settings_layers, settings_checks

pytestmark = pytest.mark.usefixtures("ansible_plugins")
CHECKS = settings_checks.read(Path(__file__).parents[3] / "roles" / "sample" / "meta" / "checks.yml")
USUAL = {
    "sample_stages": ["Job", "Pod"],
    "sample_namespaces": [],
    "sample_canary_namespace": "",
    "sample_label_selector": "",
    "sample_field_selector": "",
}


def problem(**settings: Any) -> settings_checks.Problem | None:
    render = collect_settings_layers.renderer(Templar(loader=DataLoader()), {})
    return settings_checks.first_problem(CHECKS, {**USUAL, **settings}, render)


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
    ],
)
def test_valid_selectors_pass(name: str, value: Any) -> None:
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
    ],
)
def test_an_invalid_selector_is_refused_with_its_value(name: str, value: Any) -> None:
    found = problem(**{name: value})
    assert found is not None and found[0] == name and found[1].startswith(f"{name} is {value}: ")

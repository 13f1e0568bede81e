# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings that role scheduler writes for Kueue, made from its tasks as Ansible does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROLE = Path(__file__).parents[3] / "roles" / "scheduler"
COMPONENT = ROLE.parent / "rehearsal/files/components/kueue-pods-ready/objects.yml"
LOADER = DataLoader()


def written(before: list[dict[str, Any]], **settings: Any) -> str:
    """Return the text that is written if the cluster has these ConfigMaps."""
    known: dict[str, Any] = {"run_id": "t1", "__scheduler_kueue_has": {"resources": before}}
    for folder in ("defaults", "vars"):
        known.update(LOADER.load_from_file(str(ROLE / folder / "main.yml"), trusted_as_template=True))
    tasks = LOADER.load_from_file(str(ROLE / "tasks/fair_sharing.yml"), trusted_as_template=True)
    (block,) = (task for task in tasks if "block" in task)
    known.update(block["vars"])
    templar = Templar(loader=LOADER, variables={**known, **settings})
    data = templar.template(block["block"][0]["kubernetes.core.k8s"]["definition"]["data"])
    return str(data["controller_manager_config.yaml"])


def test_settings_of_components_stay_and_those_of_the_role_follow_the_point() -> None:
    (component,) = yaml.safe_load(COMPONENT.read_text(encoding="utf-8"))
    ready = yaml.safe_load(component["data"]["controller_manager_config.yaml"])
    first = written([component], scheduler_fair_sharing=True)
    assert json.loads(first).keys() == {"waitForPodsReady", "fairSharing"}
    again = [{"data": {"controller_manager_config.yaml": first}}]
    assert written(again, scheduler_fair_sharing=True) == first, "Kueue is not started anew"
    assert json.loads(written(again, scheduler_fair_sharing=False)) == ready


@pytest.mark.parametrize("before", [[], [{}], [{"data": {}}], [{"data": {"controller_manager_config.yaml": ""}}]])
def test_without_settings_of_others_only_those_of_the_role_are_written(before: list[dict[str, Any]]) -> None:
    assert written(before, scheduler_fair_sharing=False) == "{}"

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of servers that a run deploys, made from the variables of role serving as Ansible does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROLE = Path(__file__).parents[3] / "roles" / "serving"
LOADER = DataLoader()
SECRET = "kanary-1"


def objects(**settings: Any) -> list[dict[str, Any]]:
    """Return the objects of template ``deployment`` for these settings."""
    known: dict[str, Any] = {}
    for folder in ("defaults", "vars"):
        known.update(LOADER.load_from_file(str(ROLE / folder / "main.yml"), trusted_as_template=True))
    known.update(run_id="t1", run_point="001", serving_image="localhost/server:1", **settings)
    values = Templar(loader=LOADER, variables=known).template(known["__serving_variables"])
    text = (ROLE / "files" / "servers" / "deployment" / "template.yaml.j2").read_text(encoding="utf-8")
    made = Templar(loader=LOADER, variables=values).template(trust_as_template(text))
    return list(yaml.safe_load_all(made))


def test_a_variable_is_a_text_or_has_its_source_and_a_secret_is_in_no_object() -> None:
    source = {"secretKeyRef": {"name": "hub", "key": "token"}}
    given = {"A": 1, "B": "b", "HF_TOKEN": source, "MY_TOKEN": SECRET}
    deployment, _service = objects(serving_environment=given)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "b"},
        {"name": "HF_TOKEN", "valueFrom": source},
        {"name": "MY_TOKEN", "valueFrom": {"secretKeyRef": {"name": "serving-t1", "key": "MY_TOKEN"}}},
    ]


def test_the_secret_of_a_run_has_the_secrets_among_the_variables() -> None:
    known = LOADER.load_from_file(str(ROLE / "vars" / "main.yml"), trusted_as_template=True)
    (task,) = [
        task
        for task in LOADER.load_from_file(str(ROLE / "tasks" / "deploy.yml"), trusted_as_template=True)
        if "perfscale.seatrial.inference_deployment" in task
    ]
    for given, wanted in (({"A": "a", "MY_TOKEN": SECRET}, {"serving-t1": {"MY_TOKEN": SECRET}}), ({"A": "a"}, {})):
        templar = Templar(loader=LOADER, variables={**known, "run_id": "t1", "serving_environment": given})
        assert templar.template(task["perfscale.seatrial.inference_deployment"]["secrets"]) == wanted

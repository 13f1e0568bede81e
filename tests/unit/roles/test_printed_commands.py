# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that variables of roles write: neither a shell nor Ansible changes a value in them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

pytestmark = pytest.mark.usefixtures("ansible_plugins")
ROOT = Path(__file__).resolve().parents[3]
LOADER = DataLoader()
TEXTS = ["plain", "a b 'c' \"d\" \\e\\n\nlast", '": "', "{{ 7 * 7 }}", 'x": "{% if y %}', "{# gone #} $HOME `id`"]


def literal_values(command: str, names: dict[str, Any], role: str) -> Any:
    """Return what Ansible makes of ``-e`` at the end of a command in the variables of a role."""
    variables = LOADER.load_from_file(str(ROOT / "roles" / role / "vars" / "main.yml"), trusted_as_template=True)
    text = Templar(loader=LOADER, variables={**variables, **names}).template(variables[command])
    argument = shlex.split(text.removeprefix("call the playbook again with "))[-1]
    return Templar(loader=LOADER, variables={}).template(LOADER.load(trust_as_template(argument)))  # as Ansible does


@pytest.mark.parametrize("text", TEXTS)
def test_the_command_that_removes_a_cluster_keeps_the_text_of_a_path(text: str) -> None:
    values = literal_values("__cluster_remove", {"run_dir": f"/nowhere/{text}"}, "cluster")
    assert values == {"run_dir": f"/nowhere/{text}", "cluster_keep": False}


@pytest.mark.parametrize("text", [*TEXTS, "#jinja2: variable_start_string:'<<'\n<< 7 >>"])
def test_the_command_that_releases_a_lease_keeps_the_texts_of_its_settings(text: str) -> None:
    names = {f"quads_lease_{name}": text for name in ("id", "api_url", "username", "ca_path")}
    values = literal_values("__quads_lease_release", {**names, "quads_lease_validate_certs": False}, "quads_lease")
    assert values == {**names, "quads_lease_validate_certs": False}

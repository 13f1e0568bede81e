# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values reach ansible-playbook unchanged through a shell, through Ansible's parser of -e and through Jinja."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.extra_vars_arguments import (
    extra_vars_arguments,
    extra_vars_shell_text,
)
from hypothesis import given
from hypothesis import strategies as st

HOSTILE = "a b  'c' \"d\" \\e\\n {{ 7 * 7 }} {% x %} {# y #} #f $HOME `id` ;&|*?!~\té😀\u2028\x85\x07\nlast "


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.booleans())
def test_a_shell_and_the_parser_of_ansible_change_no_value(text: str, template: bool) -> None:
    value = text + "{{" * template
    option, words = shlex.split(extra_vars_shell_text({"run_dir": value, "cluster_keep": False, "count": 3}))
    loaded = DataLoader().load(words)
    assert option == "-e" and loaded == {"run_dir": value, "cluster_keep": False, "count": 3}


def test_a_header_that_sets_other_delimiters_makes_a_template_of_a_text() -> None:
    header = "#jinja2: variable_start_string:'<<', variable_end_string:'>>'\n<< 7 * 7 >>"
    assert extra_vars_arguments({"x": header})[1].startswith('{"x": !unsafe ')


def test_a_value_without_a_template_is_plain_json() -> None:
    assert extra_vars_arguments({"run_dir": "/my runs/é"}) == ["-e", '{"run_dir": "/my runs/é"}']


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_ansible_playbook_receives_the_value_and_renders_nothing(shell: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    play = [
        {
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [{"ansible.builtin.copy": {"content": "{{ [run_dir, run_dir ~ '/x'] }}", "dest": str(out)}}],
        }
    ]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    program = shlex.join([str(Path(sys.executable).with_name("ansible-playbook")), str(tmp_path / "play.yml")])
    command = f"{program} {extra_vars_shell_text({'run_dir': HOSTILE})}"
    subprocess.run([shell, "-c", command], check=True, timeout=120, stdout=subprocess.DEVNULL)
    assert json.loads(out.read_text()) == [HOSTILE, HOSTILE + "/x"]

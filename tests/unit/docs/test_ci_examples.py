# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of docs/ci.md: they parse, and what they set exists."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.ci import ci_engines, ci_run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import settings_catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.read_secret_settings import (
    secret_environment_variable,
)

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"<!-- test: (\w+) -->\n```(\w+)\n(.*?)```", re.DOTALL)
EXAMPLES = {one[1]: (one[2], one[3]) for one in _BLOCK.finditer(TEXT)}
CATALOGUE = settings_catalogue.load_catalogue(ROOT)
ENGINES = ci_engines.load_engine_definitions(ROOT / "roles" / "ci" / "files" / "engines")


def commands(text: str) -> list[str]:
    """The command lines with tools/ci; a folded one is joined."""
    joined = re.sub(r"\n\s+-e ", " -e ", text)
    return [line[line.index("tools/ci") :].strip().rstrip("'") for line in joined.splitlines() if "tools/ci" in line]


def test_every_engine_but_the_terminal_has_an_example() -> None:
    assert set(EXAMPLES) == set(ENGINES) - {"terminal"}


@pytest.mark.parametrize("engine", EXAMPLES)
def test_an_example_parses_and_its_settings_exist(engine: str) -> None:
    kind, text = EXAMPLES[engine]
    if kind == "yaml":
        assert isinstance(yaml.safe_load(text), dict)
    else:
        assert text.count("{") == text.count("}") and text.count("'") % 2 == 0
    (command,) = commands(text)
    if command.count("'") % 2:
        command += "'"
    words = shlex.split(command.partition("||")[0])
    given = ci_run.parse_command_line(words[1:])
    assert (ROOT / given.playbook).is_file() and given.timeout == 7200
    extra = [given.arguments[at + 1] for at, word in enumerate(given.arguments) if word == "-e"]
    names = [name for one in extra for name in (json.loads(one) if one.startswith("{") else [one.partition("=")[0]])]
    assert "ci_project" in names and set(names) <= set(CATALOGUE.settings)


@pytest.mark.parametrize("engine", EXAMPLES)
def test_the_secrets_and_variables_of_an_example_exist(engine: str) -> None:
    text = EXAMPLES[engine][1]
    assert set(re.findall(r"SEATRIAL_\w+", text)) <= {secret_environment_variable(name) for name in CATALOGUE.secrets}
    known = {name for one in ENGINES.values() for name in re.findall(r"\{(TEKTON_\w+)\}", json.dumps(one))}
    known |= {name for one in ENGINES.values() for name in one.get("detect") or {}}
    used = set(re.findall(r"TEKTON_\w+", text))
    assert used <= known and bool(used) is (engine == "tekton")
    if engine == "tekton":
        (step,) = yaml.safe_load(text)["spec"]["steps"]
        environ = {one["name"]: "value" for one in step["env"]}
        assert ci_engines.detect_ci_engine(ENGINES, environ) == "tekton"
        assert ci_engines.read_current_job(ENGINES, "", environ, {}).path == "pull/value/value/value/value"

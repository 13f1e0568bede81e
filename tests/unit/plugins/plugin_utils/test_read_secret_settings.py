# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a secret comes from, and that it goes nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils import read_secret_settings, run_record


def read(variables: dict, environ: dict | None = None) -> str | None:
    return read_secret_settings.read("x_token", variables, environ or {}, lambda value: value)


def test_variable_wins_over_file_and_file_over_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from file\n", encoding="utf-8")
    environ = {"SEATRIAL_X_TOKEN": "from environment"}
    assert read({"x_token": "from variable", "x_token_file": str(file)}, environ) == "from variable"
    assert read({"x_token": "", "x_token_file": str(file)}, environ) == "from file"
    assert read({}, environ) == "from environment"
    assert read({}) is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="x_token_file: can't read .*nowhere"):
        read({"x_token_file": str(tmp_path / "nowhere")})


def test_a_missing_secret_names_all_three_ways() -> None:
    text = str(read_secret_settings.missing("x_token", "by phase prepare"))
    assert "by phase prepare" in text
    for way in ("variable x_token ", "x_token_file", "SEATRIAL_X_TOKEN"):
        assert way in text


def test_the_longest_secret_is_masked_first() -> None:
    assert read_secret_settings.mask("a abcdef abc", ["abc", "abcdef", None, ""]) == "a <secret> <secret>"


def test_the_recorded_command_holds_no_secret() -> None:
    argv = ["/x/bin/ansible-playbook", "p.yml", "-e", "x_token=CANARY"]
    assert run_record.CommandLine(argv, {}, ["CANARY"]).text() == "ansible-playbook p.yml -e x_token=<secret>"

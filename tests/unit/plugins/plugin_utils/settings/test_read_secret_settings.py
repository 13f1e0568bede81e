# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a secret comes from, and that it goes nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.run import run_record
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import read_secret_settings


def read(variables: dict, environ: dict | None = None) -> str | None:
    return read_secret_settings.read_secret_if_given("x_token", variables, environ or {}, lambda value: value)


def test_variable_wins_over_file_and_file_over_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from file\n", encoding="utf-8")
    environ = {"SEATRIAL_X_TOKEN": "from environment"}
    assert read({"x_token": "from variable", "x_token_file": str(file)}, environ) == "from variable"
    assert read({"x_token": "", "x_token_file": str(file)}, environ) == "from file"
    assert read({}, environ) == "from environment"
    assert read({}) is None


def test_a_secret_has_no_line_breaks_at_its_ends() -> None:
    assert read({"x_token": "from vault\n"}) == "from vault"
    assert read({}, {"SEATRIAL_X_TOKEN": "from environment\r\n"}) == "from environment"
    assert read({}, {"SEATRIAL_X_TOKEN": "\n"}) is None


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="x_token_file: can't read .*nowhere"):
        read({"x_token_file": str(tmp_path / "nowhere")})


def test_a_missing_secret_names_all_three_ways() -> None:
    text = str(read_secret_settings.missing_secret_error("x_token", "by phase prepare"))
    assert "by phase prepare" in text
    for way in ("variable x_token ", "x_token_file", "SEATRIAL_X_TOKEN"):
        assert way in text


def test_the_longest_secret_is_masked_first() -> None:
    assert read_secret_settings.mask_secret_values("a abcdef abc", ["abc", "abcdef", None, ""]) == "a <secret> <secret>"


def test_the_recorded_command_holds_no_secret() -> None:
    argv = ["/x/bin/ansible-playbook", "p.yml", "-e", "x_token=CANARY"]
    assert run_record.CommandLine(argv, {}, ["CANARY"]).text() == "ansible-playbook p.yml -e x_token=<secret>"


def test_a_file_of_the_folder_of_secrets_comes_after_the_named_file_and_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "x_token").write_text("from folder\n", encoding="utf-8")
    (tmp_path / "named").write_text("from file\n", encoding="utf-8")
    environ = {"SEATRIAL_X_TOKEN": "from environment"}
    folder = {"secrets_dir": str(tmp_path)}
    assert read(folder, environ) == "from folder"
    assert read({**folder, "x_token_file": str(tmp_path / "named")}, environ) == "from file"
    assert read({**folder, "x_token": "from variable"}) == "from variable"
    assert read({"secrets_dir": str(tmp_path / "none")}, environ) == "from environment"


def test_an_error_about_a_file_never_quotes_its_content(tmp_path: Path) -> None:
    (tmp_path / "x_token").write_bytes(b"CANARY\xff")
    with pytest.raises(InputError, match=r"secrets_dir: can't read .*/x_token: it is not text") as caught:
        read({"secrets_dir": str(tmp_path)})
    assert "CANARY" not in str(caught.value) and "0xff" not in str(caught.value)
    (tmp_path / "x_token").write_text(" \n", encoding="utf-8")
    with pytest.raises(InputError, match="x_token is empty"):
        read({"secrets_dir": str(tmp_path)})


def test_a_missing_secret_names_the_file_that_was_looked_for_and_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "x_tokn").touch()
    text = str(read_secret_settings.missing_secret_error("x_token", "by phase prepare", tmp_path))
    assert f"{tmp_path / 'x_token'}, which does not exist" in text and "x_tokn" in text


def test_a_folder_of_secrets_that_can_not_be_meant_is_refused(tmp_path: Path) -> None:
    known = ["fine_tuning_model_token", "export_s3_secret_key"]
    for name in ("fine_tuning_model_token", "README", ".git", "kubeconfig"):
        (tmp_path / name).touch()
    read_secret_settings.check_secrets_folder(tmp_path, known)
    (tmp_path / "fine_tuning_model_tokn").touch()
    with pytest.raises(InputError, match="did you mean 'fine_tuning_model_token'"):
        read_secret_settings.check_secrets_folder(tmp_path, known)
    with pytest.raises(InputError, match="is missing"):
        read_secret_settings.check_secrets_folder(tmp_path / "none", known)
    with pytest.raises(InputError, match="is no folder"):
        read_secret_settings.check_secrets_folder(tmp_path / "README", known)

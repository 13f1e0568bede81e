# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup of secret settings: variable, file, environment; an error that names all three."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.perfscale.seatrial.plugins.lookup import secret

NAME = "fine_tuning_model_token"


def look_up(monkeypatch: pytest.MonkeyPatch, required: bool = False, **variables: Any) -> list[str]:
    one = secret.LookupModule(templar=SimpleNamespace(template=lambda text: text))
    monkeypatch.setattr(one, "set_options", lambda **_options: None)
    monkeypatch.setattr(one, "get_option", lambda name: required and name == "required")
    return one.run([NAME], variables)


def test_the_variable_wins_over_the_file_and_the_file_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SEATRIAL_FINE_TUNING_MODEL_TOKEN", "environment")
    assert look_up(monkeypatch) == ["environment"]
    (tmp_path / "token").write_text("file\n")
    path = {f"{NAME}_file": str(tmp_path / "token")}
    assert look_up(monkeypatch, **path) == ["file"]
    assert look_up(monkeypatch, **path, **{NAME: "variable"}) == ["variable"]


def test_a_secret_that_is_not_given_is_empty_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look_up(monkeypatch) == [""]
    with pytest.raises(AnsibleLookupError, match=f"{NAME} is needed here and is not given.*SEATRIAL_FINE_TUNING"):
        look_up(monkeypatch, required=True)


def test_a_file_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(AnsibleLookupError, match=f"{NAME}_file: can't read"):
        look_up(monkeypatch, **{f"{NAME}_file": str(tmp_path / "none")})

"""ansible-lint, whatever collections the installed package ansible has."""

from __future__ import annotations

import lint_ansible
import pytest
from common import ROOT


def test_what_needs_a_missing_collection_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(lint_ansible, "VENV", ROOT / "nosuch")
    found = lint_ansible.command()
    shown = capsys.readouterr().out
    for name, paths in lint_ansible.USERS.items():
        assert name in shown
        for path in paths:
            assert (
                (ROOT / path).exists()
                and path in shown
                and ["--exclude", path] in (found[at : at + 2] for at in range(len(found)))
            )


def test_nothing_is_left_out_if_all_collections_are_installed(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    for name in lint_ansible.USERS:
        folder = tmp_path / "lib/python3.11/site-packages/ansible_collections" / name.replace(".", "/")
        folder.mkdir(parents=True)
    monkeypatch.setattr(lint_ansible, "VENV", tmp_path)
    assert lint_ansible.command() == lint_ansible.COMMAND

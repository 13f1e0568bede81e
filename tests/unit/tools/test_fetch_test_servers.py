"""Servers for tests: got once, whole or not at all, and said when they can't be had."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SPEC = importlib.util.spec_from_file_location("services_under_test", ROOT / "tools" / "fetch_test_servers.py")


@pytest.fixture
def services(monkeypatch, tmp_path):
    module = importlib.util.module_from_spec(SPEC)
    SPEC.loader.exec_module(module)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return module


def test_a_part_is_made_once_and_found_again(services, tmp_path):
    made = []

    def make(fresh, _log):
        made.append(fresh)
        (fresh / "file").touch()
        return True

    target = services.axe()
    assert services.fill(target, tmp_path / "log", make) and services.fill(target, tmp_path / "log", make)
    assert len(made) == 1 and (target / "file").exists()


@pytest.mark.parametrize("raises", [True, False])
def test_a_part_that_could_not_be_made_leaves_nothing(services, tmp_path, raises):
    def make(fresh, _log):
        (fresh / "half").touch()
        if raises:
            raise OSError
        return False

    target = services.prometheus()
    if raises:
        with pytest.raises(OSError):
            services.fill(target, tmp_path / "log", make)
    else:
        assert not services.fill(target, tmp_path / "log", make)
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["axe", "prometheus", "opensearch"])
def test_without_the_program_that_gets_it_that_is_said(services, tmp_path, monkeypatch, capsys, name):
    monkeypatch.setattr(services.shutil, "which", lambda _name: None)
    assert services.ensure(tmp_path / "services.log", [name]) == [name]
    assert "missing" in capsys.readouterr().out


def test_another_version_has_another_place(services, monkeypatch):
    before = services.axe()
    monkeypatch.setattr(services, "AXE", "axe-core@0.0.0")
    assert services.axe() != before

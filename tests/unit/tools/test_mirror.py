"""A mirror: what is missing is one clear error, what is there is used without network."""

from __future__ import annotations

import os
from pathlib import Path

import mirror
import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache, empty; pip's variables are put back afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "")
    return tmp_path / "cache" / "seatrial" / "rehearsal"


def filled(folder: Path) -> Path:
    program = folder / "rehearsal" / "etcd-1-abc" / "bin" / "etcd"
    program.parent.mkdir(parents=True)
    program.write_text("program")
    program.chmod(0o755)
    (folder / "wheels").mkdir()
    return folder


def test_programs_are_copied_once_and_packages_come_from_the_folder(tmp_path: Path, cache: Path) -> None:
    place = filled(tmp_path / "stick")
    mirror.use(place)
    program = cache / "etcd-1-abc" / "bin" / "etcd"
    assert program.read_text() == "program" and os.access(program, os.X_OK)
    assert (os.environ["PIP_NO_INDEX"], os.environ["PIP_FIND_LINKS"]) == ("1", (place / "wheels").as_uri())
    program.write_text("mine")
    mirror.use(place)
    assert program.read_text() == "mine" and [path.name for path in cache.iterdir()] == ["etcd-1-abc"]


def test_a_folder_without_wheels_or_programs_is_one_clear_error(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(SystemExit, match=rf"MIRROR={tmp_path} has no folder wheels; with a network, make mirror"):
        mirror.use(tmp_path)
    with pytest.raises(SystemExit, match=r"MIRROR=stick is not an absolute path"):
        mirror.use(Path("stick"))
    assert os.environ["PIP_NO_INDEX"] == "" and not cache.exists()

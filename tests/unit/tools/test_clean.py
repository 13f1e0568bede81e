"""make clean: takes away what this clone set up, and never what somebody needs."""

from __future__ import annotations

import contextlib
import json

import clean
import pytest


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with two runs, one of which holds something."""
    root = tmp_path / "clone"
    monkeypatch.setattr(clean, "ROOT", root)
    monkeypatch.setattr(clean, "CACHE", root / ".cache")
    monkeypatch.setattr(clean, "ARTIFACTS", root / "artifacts")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("GOCACHE", "GOMODCACHE"):
        monkeypatch.setenv(name, str(tmp_path / "go" / name))
    for name, held in (("t1-done", "held: []"), ("t1-kept", "held:\n- what: rehearsal cluster")):
        (root / "artifacts" / f"x-light-{name}").mkdir(parents=True)
        (root / "artifacts" / f"x-light-{name}" / "run.yml").write_text(f"---\nschema: run/1\nid: {name}\n{held}\n")
    return root


def make_instance(folder, owner):
    """A folder that looks like an instance of a rehearsal cluster."""
    folder.mkdir(parents=True)
    (folder / "instance.json").write_text(json.dumps({"name": folder.name, "owner": owner}))


def test_clusters_of_this_clones_runs_and_tests_are_ours_and_no_others(clone, tmp_path):
    state = tmp_path / "state" / "seatrial" / "rehearsal"
    make_instance(state / "of-our-run", "t1-kept")
    make_instance(state / "of-another", "t9-other")
    make_instance(state / "default", "")
    make_instance(clone / ".cache" / "rehearsal" / "molecule", "")
    (state / "no-instance").mkdir()
    ours = {path.name: mine for path, _, mine in clean.left_clusters()}
    assert ours == {"of-our-run": True, "of-another": False, "default": False, "molecule": True}


def test_results_of_a_run_that_holds_something_stay(clone, capsys):
    clean.remove_artifacts()
    assert [path.name for path in (clone / "artifacts").iterdir()] == ["x-light-t1-kept"]
    assert "still holds something" in capsys.readouterr().out


def test_results_stay_unless_asked_for(clone, monkeypatch):
    (clone / ".venv").mkdir()
    monkeypatch.setattr(clean, "stop_clusters", lambda: True)
    monkeypatch.setattr(clean, "locked", lambda *_: contextlib.nullcontext())
    assert clean.main([]) == 0
    assert not (clone / ".venv").exists()
    assert len(list((clone / "artifacts").iterdir())) == 2


def test_nothing_is_removed_when_a_cluster_can_not_be_stopped(clone, monkeypatch):
    (clone / ".venv").mkdir()
    monkeypatch.setattr(clean, "stop_clusters", lambda: False)
    monkeypatch.setattr(clean, "locked", lambda *_: contextlib.nullcontext())
    assert clean.main(["--artifacts"]) == 1
    assert (clone / ".venv").exists() and len(list((clone / "artifacts").iterdir())) == 2


@pytest.mark.parametrize("running", [False, True])
def test_shared_caches_are_removed_unless_a_cluster_uses_them(clone, tmp_path, monkeypatch, capsys, running):
    programs, build = tmp_path / "cache" / "seatrial" / "rehearsal", tmp_path / "go" / "GOCACHE"
    for folder in (programs, build):
        folder.mkdir(parents=True)
        (folder / "program").write_bytes(bytes(100))
    if running:
        make_instance(tmp_path / "state" / "seatrial" / "rehearsal" / "of-another", "t9-other")
    monkeypatch.setattr(clean, "locked", lambda *_: contextlib.nullcontext())
    assert clean.main(["--everything"]) == 0
    said = capsys.readouterr().out
    assert programs.exists() is running and build.exists()
    assert ("rehearsal clusters use it (of-another)" in said) is running
    assert f"kept: {build}, which all Go programs share; go clean" in said

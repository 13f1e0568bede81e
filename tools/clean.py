"""Undo the set-up of this clone: clean.py [--artifacts] [--everything]

Ends processes that this clone's tests left and stops the rehearsal clusters of its runs, then removes .venv and all
caches inside the repository. Results (artifacts/) are kept unless --artifacts is given; a run that may still hold
something keeps its directory even then, because it contains GIVE_BACK. Programs in the user's cache are kept too,
because other clones use them; --everything removes them, unless a rehearsal cluster still runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from common import CACHE, ROOT, VENV, folder_gb, home, locked, run, say, seatrial_cache

FOLDERS = (".venv", ".cache", ".ansible", ".pytest_cache", ".ruff_cache", ".hypothesis", "tests/output")
ARTIFACTS = ROOT / "artifacts"


def state_folder() -> Path:
    """The default folder of rehearsal clusters (role rehearsal, rehearsal_data_dir)."""
    base = os.environ.get("XDG_STATE_HOME") or str(home() / ".local" / "state")
    return Path(base) / "seatrial" / "rehearsal"


def go_caches() -> list[Path]:
    """Go's build cache and module cache, which a set-up fills with about 4 GB."""
    build = os.environ.get("GOCACHE") or Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "go-build"
    path = os.environ.get("GOPATH", "").partition(os.pathsep)[0] or home() / "go"
    return [Path(build), Path(os.environ.get("GOMODCACHE") or Path(path) / "pkg" / "mod")]


def own_runs() -> set[str]:
    """Ids of the runs in this clone's artifacts."""
    found = [re.search(r"^id: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE) for path in run_files()]
    return {match[1].strip("'\"") for match in found if match}


def run_files() -> list[Path]:
    """run.yml of every run of this clone."""
    return sorted(ARTIFACTS.glob("*/run.yml"))


def owner_of(instance: Path) -> str | None:
    """Id of the run that an instance belongs to, empty for none; None if it is not an instance."""
    try:
        return str(json.loads((instance / "instance.json").read_text(encoding="utf-8")).get("owner") or "")
    except (OSError, ValueError):
        return None


def left_clusters() -> list[tuple[Path, str, bool]]:
    """Instances (folder, owner, ours). Those inside the clone belong to its tests, others to the run with their id."""
    runs = own_runs()
    found = []
    for folder, inside in ((CACHE / "rehearsal", True), (state_folder(), False)):
        for instance in sorted(folder.glob("*")) if folder.is_dir() else []:
            owner = owner_of(instance)
            if owner is not None:
                found.append((instance, owner, inside or owner in runs))
    return found


def stop_clusters() -> bool:
    """Stop our clusters and report the others. False if one could not be stopped."""
    fine = True
    for instance, owner, ours in left_clusters():
        if not ours:
            whose = f"run {owner}" if owner else "no run: it was started by hand"
            say(f"rehearsal cluster '{instance.name}' is kept ({whose})")
            continue
        say(f"stopping rehearsal cluster '{instance.name}'")
        settings = {
            "rehearsal_name": instance.name,
            "rehearsal_data_dir": str(instance.parent),
            "rehearsal_owner": owner,
        }
        command = [str(VENV / "bin" / "ansible-playbook"), "playbooks/rehearsal.yml", "--tags", "absent"]
        try:
            done = subprocess.run(
                [*command, "-e", json.dumps(settings)], cwd=ROOT, capture_output=True, text=True, timeout=180
            )
            problem = (done.stdout + done.stderr).strip()[-800:] if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        if problem:
            fine = False
            say(f"it could not be stopped, so .venv and .cache are kept:\n{problem}")
    return fine


def end_leftovers() -> bool:
    """End processes of killed tests and set-ups. False if something remains or one of them is running."""
    runs = CACHE / "runs"
    if not any(one.is_dir() for one in runs.glob("*-*")):
        return True
    command = [str(VENV / "bin" / "python"), str(ROOT / "tools" / "leftovers.py"), "--ended"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
        problem = done.stderr.strip()[-800:] if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        done, problem = None, str(error)
    if problem:
        say(f"processes of killed tests or set-ups could not be ended, so .venv and .cache are kept:\n{problem}")
    elif done and done.stdout.strip():
        problem = f"tests or a set-up are running in this clone (process {done.stdout.split('-')[0]})"
        say(f"{problem}: nothing was removed")
    return not problem


def holds_something(run_file: Path) -> bool:
    """Whether a run still holds something according to its record; if in doubt, yes."""
    text = run_file.read_text(encoding="utf-8")
    return not re.search(r"^held: \[\]", text, re.MULTILINE)


def remove_artifacts() -> None:
    """Remove the results, except of runs that may still hold something."""
    kept = {path.parent for path in run_files() if holds_something(path)}
    for folder in sorted(ARTIFACTS.glob("*")) if ARTIFACTS.is_dir() else []:
        if folder in kept:
            say(f"{folder.relative_to(ROOT)} is kept: the run still holds something, see GIVE_BACK in it")
        elif folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
            say(f"{folder.relative_to(ROOT)} removed")
        else:
            folder.unlink()


def remove_folder(folder: Path, name: str) -> None:
    """Remove a folder if it is there, and say how much that was."""
    if folder.is_dir():
        size = folder_gb(folder)
        shutil.rmtree(folder)
        say(f"{name} removed ({size:.1f} GB)")


def remove_caches() -> None:
    """Remove what all clones of this user share, except while a cluster uses it."""
    if left := [instance.name for instance, _owner, _ours in left_clusters()]:
        using = f"rehearsal clusters use it ({', '.join(left)})"
        say(f"{seatrial_cache()} is kept: {using}; GIVE_BACK of their runs stops them")
        return
    remove_folder(seatrial_cache(), str(seatrial_cache()))
    remove_folder(state_folder(), str(state_folder()))


def main(arguments: list[str]) -> int:
    """Stop, remove, report what is kept."""
    with locked("suites", "running tests"):
        if not (end_leftovers() and stop_clusters()):
            return 1
    if "--artifacts" in arguments:
        remove_artifacts()
    for name in FOLDERS:
        remove_folder(ROOT / name, name)
    if "--everything" in arguments:
        remove_caches()
    for path in [*ROOT.glob("perfscale-seatrial-*.tar.gz")]:
        path.unlink()
        say(f"{path.name} removed")
    for folder in ("plugins", "tests", "tools"):
        for cache in (ROOT / folder).rglob("__pycache__"):
            shutil.rmtree(cache)
    if ARTIFACTS.is_dir() and any(ARTIFACTS.iterdir()) and "--artifacts" not in arguments:
        say("artifacts/ is kept (make clean ARTIFACTS=1 removes the results too)")
    if seatrial_cache().is_dir() and "--everything" not in arguments:
        size = folder_gb(seatrial_cache())
        say(f"{seatrial_cache()} is kept ({size:.1f} GB): other clones use it (make clean EVERYTHING=1 removes it too)")
    # Without their sizes: to add up some 200,000 files takes minutes on a busy machine.
    if folders := [str(folder) for folder in go_caches() if folder.is_dir()]:
        say(f"kept: {' and '.join(folders)}, which all Go programs share; go clean -cache -modcache removes them")
    return 0


if __name__ == "__main__":
    run(lambda: sys.exit(main(sys.argv[1:])))

"""Undo the set-up of this clone: clean.py [--artifacts]

Ends what this clone's tests left and stops the rehearsal clusters of its runs, then removes .venv and all caches inside
the repository. Results (artifacts/) stay unless --artifacts is given; a run that may still hold something keeps its
directory even then, because the way to give it back is written there. Programs in the user's cache stay too: other
clones use them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from common import CACHE, ROOT, VENV, home, locked, run, say, seatrial_cache

FOLDERS = (".venv", ".cache", ".ansible", ".pytest_cache", ".ruff_cache", ".hypothesis", "tests/output")
ARTIFACTS = ROOT / "artifacts"


def state_folder() -> Path:
    """Where rehearsal clusters live by default (role rehearsal, rehearsal_data_dir)."""
    base = os.environ.get("XDG_STATE_HOME") or str(home() / ".local" / "state")
    return Path(base) / "seatrial" / "rehearsal"


def own_runs() -> set[str]:
    """Ids of the runs in this clone's artifacts."""
    found = [re.search(r"^id: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE) for path in run_files()]
    return {match[1].strip("'\"") for match in found if match}


def run_files() -> list[Path]:
    """run.yml of every run of this clone."""
    return sorted(ARTIFACTS.glob("*/run.yml"))


def owner_of(instance: Path) -> str | None:
    """Id of the run that an instance belongs to, empty for none; None when it is no instance."""
    try:
        return str(json.loads((instance / "instance.json").read_text(encoding="utf-8")).get("owner") or "")
    except (OSError, ValueError):
        return None


def left_clusters() -> list[tuple[Path, str, bool]]:
    """Instances (folder, owner, ours). Those inside the clone are its tests'; others are ours by their run's id."""
    runs = own_runs()
    found = []
    for folder, inside in ((CACHE / "rehearsal", True), (state_folder(), False)):
        for instance in sorted(folder.glob("*")) if folder.is_dir() else []:
            owner = owner_of(instance)
            if owner is not None:
                found.append((instance, owner, inside or owner in runs))
    return found


def stop_clusters() -> bool:
    """Stop what is ours; say what stays and why. False when one could not be stopped."""
    fine = True
    for instance, owner, ours in left_clusters():
        if not ours:
            whose = f"run {owner}" if owner else "nobody's run: it was started to stay"
            say(f"rehearsal cluster '{instance.name}' stays ({whose})")
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
            say(f"it could not be stopped, so .venv and .cache stay as they are:\n{problem}")
    return fine


def end_leftovers() -> bool:
    """End what killed tests and set-ups left. False when something stays, or one of them is under way."""
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
        say(f"what killed tests or set-ups left could not be ended, so .venv and .cache stay as they are:\n{problem}")
    elif done and done.stdout.strip():
        problem = f"tests or a set-up are under way in this clone (process {done.stdout.split('-')[0]})"
        say(f"{problem}: nothing was removed")
    return not problem


def holds_something(run_file: Path) -> bool:
    """Whether a run's record says that something is still held; in doubt yes."""
    text = run_file.read_text(encoding="utf-8")
    return not re.search(r"^held: \[\]", text, re.MULTILINE)


def remove_artifacts() -> None:
    """Remove the results, except of runs that may still hold something."""
    kept = {path.parent for path in run_files() if holds_something(path)}
    for folder in sorted(ARTIFACTS.glob("*")) if ARTIFACTS.is_dir() else []:
        if folder in kept:
            say(
                f"{folder.relative_to(ROOT)} stays: run.yml says that it still holds something, and how to give it back"
            )
        elif folder.is_dir() and not folder.is_symlink():
            shutil.rmtree(folder)
            say(f"{folder.relative_to(ROOT)} removed")
        else:
            folder.unlink()


def main(arguments: list[str]) -> int:
    """Stop, remove, say what stays."""
    with locked("suites", "running tests"):
        if not (end_leftovers() and stop_clusters()):
            return 1
    if "--artifacts" in arguments:
        remove_artifacts()
    for name in FOLDERS:
        if (ROOT / name).exists():
            shutil.rmtree(ROOT / name)
            say(f"{name} removed")
    for path in [*ROOT.glob("perfscale-seatrial-*.tar.gz")]:
        path.unlink()
        say(f"{path.name} removed")
    for folder in ("plugins", "tests", "tools"):
        for cache in (ROOT / folder).rglob("__pycache__"):
            shutil.rmtree(cache)
    if ARTIFACTS.is_dir() and any(ARTIFACTS.iterdir()) and "--artifacts" not in arguments:
        say("artifacts/ stays (make clean ARTIFACTS=1 removes the results too)")
    if seatrial_cache().is_dir():
        say(f"{seatrial_cache()} stays: other clones use the programs in it")
    return 0


if __name__ == "__main__":
    run(lambda: sys.exit(main(sys.argv[1:])))

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of a run: its name, its numbered steps, and the file that names it to a caller of ansible-playbook."""

from __future__ import annotations

import functools
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import disk_reserve, files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError, InputError

_STEP = re.compile(r"^(\d{3,})__")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"  # without letters that are easily confused


def new_id() -> str:
    """Return a run id: month and day, then six random characters. Names of Services must begin with a letter."""
    tail = "".join(secrets.choice(_LETTERS) for dummy in range(6))
    return f"t{datetime.now(UTC):%m%d}-{tail}"


def generated_directory_name(project: str, presets: list[str], run_id: str) -> str:
    """Return ``<project>-<preset>-<id>``; several presets are joined by ``+``, a long list is truncated."""
    preset = "+".join(presets)[:60] or "default"
    return f"{project}-{preset}-{run_id}"


def given_name(project: str, name: str) -> str:
    """Return ``<project>-<name>``, for a name that was given beforehand. Raises InputError if it can't be used."""
    if not _NAME.fullmatch(name):
        raise InputError(f"run_name '{name}': use up to 60 letters, digits, '_', '-' and '.', a letter or digit first")
    return f"{project}-{name}"


def create_run_directory(parent: Path, name: str, fill: Callable[[Path], None]) -> Path:
    """Create the run directory with everything that ``fill`` writes, atomically.

    It is filled under a temporary name and then renamed: an existing run directory always contains its request. It also
    gets the space that giving back needs on a full disk.
    Raises InputError if the directory can't be created.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        half = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=parent))
        try:
            disk_reserve.reserve_space(half)
            fill(half)
            half.chmod(files.mode_by_umask(0o775))
            target = parent / name
            os.rename(half, target)
        except BaseException:
            shutil.rmtree(half, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(f"can't create a run directory in {parent}: {error.strerror or error}") from error
    return target


def check_existing_directory(path: str) -> Path:
    """Return the directory of an earlier run. Raises InputError if there is none at ``path``."""
    directory = Path(path).expanduser()
    directory = directory if directory.is_absolute() else Path.cwd() / directory
    if not (directory / "request.yml").exists():
        what = "is not a run directory: it holds no request.yml" if directory.is_dir() else "does not exist"
        raise InputError(f"-e run_dir={path}: {directory} {what}")
    refuse_unusable_name(directory / "run.yml", "id", (read_document_if_exists(directory / "run.yml") or {}).get("id"))
    return directory


def refuse_unusable_name(path: Path, key: str, name: object) -> None:
    """Raise InputError for a name of a run or point, of the file ``path``, that would lead to another folder."""
    if name is not None and not _NAME.fullmatch(str(name)):
        shown = " ".join(str(name)[:60].split())
        raise InputError(f"{path}: {key} '{shown}' is no name of a run or of a point")


def create_next_step_directory(run_dir: Path, role: str, entry: str) -> Path:
    """Create and return the next ``NNN__<role>__<entry>``; concurrent callers never get the same number."""
    number, flags = 0, os.O_CREAT | os.O_EXCL | os.O_WRONLY
    while True:
        taken = [int(match[1]) for path in run_dir.iterdir() if (match := _STEP.match(path.name))]
        number = max(number, *taken, 0) + 1
        # This file claims the number until its directory exists. It stays if its caller is killed in between.
        claim = run_dir / f".step-{number:03d}"
        try:
            os.close(disk_reserve.write_with_reserve(claim, functools.partial(os.open, claim, flags, 0o644)))
        except FileExistsError:
            continue
        try:
            if not any(run_dir.glob(f"{number:03d}__*")):
                path = run_dir / f"{number:03d}__{role}__{entry}"
                disk_reserve.write_with_reserve(path, path.mkdir)
                return path
        finally:
            claim.unlink()


def sum_seconds_by_category(run_dir: Path, since: float) -> dict[str, float]:
    """Sum the seconds that modules recorded, by category, over the role calls begun after ``since`` (epoch seconds)."""
    total: dict[str, float] = {}
    for path in sorted(run_dir.glob("[0-9]*__*/timing.json")):
        if path.parent.stat().st_mtime >= since:
            for record in files.read_json_lines(path):
                total[record["category"]] = total.get(record["category"], 0.0) + record["seconds"]
    return total


def read_document_if_exists(path: Path) -> dict[str, Any]:
    """Read a YAML or JSON document; return an empty dictionary if it does not exist. Raises DataError if damaged."""
    if not path.exists():
        return {}
    document = files.read_json(path) if path.suffix == ".json" else files.read_yaml(path) or {}
    if not isinstance(document, dict):
        raise DataError(f"{path} is damaged: it is no dictionary")
    return document


#: Environment variable with the path of the file.
VARIABLE = "SEATRIAL_SESSION_FILE"
#: Folders that a result names: of the run, of the comparison.
KEYS = ("run_dir", "comparison")
#: Answer of a session that was asked for no run.
ANSWER = "answer"


Outcome = TypeVar("Outcome", bound=dict[str, Any] | InputError)


def write_outcome_file(outcome: Outcome) -> Outcome:
    """Write folders and answer of a result, or the text of an error, into the file if one is asked for.

    Returns ``outcome``.
    """
    if path := os.environ.get(VARIABLE):
        content: dict[str, Any] = {"error": str(outcome)}
        if not isinstance(outcome, InputError):
            content = {key: outcome[key] for key in (*KEYS, ANSWER) if key in outcome}
        files.replace_text(Path(path), json.dumps(content) + "\n")
    return outcome

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CI engines: which one runs this process, and what its environment says of the job.

Each file of a folder describes an engine: ``title``; ``detect``, environment variables with their values (null: any),
without which it is the one used if no other is found; and for each of FIELDS a list of texts, of which the first one
is used whose names in braces are all known. Names in capitals are environment variables, others earlier fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    DataError,
    InputError,
    suggest_similar_name,
)

_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class CiJob:
    """A job of an engine. A field that the environment does not give is empty.

    event: file with the event that started the job. artifacts: folder that the engine keeps. path: name of the job,
    below which its results are exported.
    """

    engine: str
    title: str
    event: str = ""
    test: str = ""
    repository: str = ""
    pull_request: str = ""
    job: str = ""
    build: str = ""
    revision: str = ""
    url: str = ""
    artifacts: str = ""
    path: str = ""


#: What a file of an engine may give, in the order in which the fields are filled.
FIELDS = tuple(field.name for field in fields(CiJob))[2:]


def load_engine_definitions(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the engines of a folder, by name. Raises DataError for an unknown key."""
    engines = {path.stem: dict(files.read_yaml(path)) for path in sorted(folder.glob("*.yml"))}
    for name, engine in engines.items():
        if unknown := set(engine) - {"title", "detect", *FIELDS}:
            key = min(unknown)
            raise DataError(
                f"{folder / name}.yml: unknown key '{key}'{suggest_similar_name(key, ['title', 'detect', *FIELDS])}"
            )
    return engines


def detect_ci_engine(engines: Mapping[str, Mapping[str, Any]], environ: Mapping[str, str]) -> str:
    """Return the name of the first engine whose variables are set, or of the one that needs none."""
    for name, engine in engines.items():
        wanted = engine.get("detect") or {}
        if wanted and all(environ.get(key) and value in (None, environ[key]) for key, value in wanted.items()):
            return name
    return next(name for name, engine in engines.items() if not engine.get("detect"))


def read_current_job(
    engines: Mapping[str, Mapping[str, Any]], name: str, environ: Mapping[str, str], known: Mapping[str, str]
) -> CiJob:
    """Return the job that runs. name: engine, empty to detect it. known: values that replace those of the environment.

    Raises InputError for an unknown engine.
    """
    if name and name not in engines:
        raise InputError(
            f"ci_engine: '{name}' is unknown{suggest_similar_name(name, engines)}; known: {', '.join(engines)}"
        )
    chosen = name or detect_ci_engine(engines, environ)
    values = {key: value for key, value in known.items() if value}
    for field in FIELDS:
        field_value = values.get(field) or _first_resolvable_text(
            engines[chosen].get(field) or [], environ, values, field == "path"
        )
        if field_value:
            values[field] = field_value
    kept = {key: value for key, value in values.items() if key in FIELDS}
    return CiJob(chosen, str(engines[chosen]["title"]), **kept)


def _first_resolvable_text(
    texts: list[str], environ: Mapping[str, str], values: Mapping[str, str], is_path: bool
) -> str:
    """Return the first text with its names replaced whose names are all known, empty if there is none."""
    known = {**values, **environ}
    for text in texts:
        if all(known.get(name) for name in _NAME.findall(text)):
            return _NAME.sub(lambda match: _sanitize_path_part(known[match[1]]) if is_path else known[match[1]], text)
    return ""


def _sanitize_path_part(text: str) -> str:
    """Return one part of a path: a repository or job may contain slashes and anything else."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip(".") or "_"

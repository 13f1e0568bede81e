# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conditions of tasks are true or false: from ansible-core 2.19 on, one that is a text or a list is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
CONDITIONS = ("when", "that", "failed_when", "changed_when", "until")


class _Loader(yaml.SafeLoader):
    """A separate class: other loaders keep their tags."""


_Loader.add_multi_constructor("!", lambda loader, _tag, node: None)  # type: ignore[no-untyped-call]


def load(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), _Loader)


def types_of_options() -> dict[str, str]:
    types: dict[str, str] = {}
    for path in ROOT.glob("roles/*/meta/argument_specs.yml"):
        for entry in load(path)["argument_specs"].values():
            types |= {name: option.get("type", "str") for name, option in (entry.get("options") or {}).items()}
    return types


def conditions(value: Any) -> Iterator[str]:
    for entry in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
        for key, inner in entry.items() if isinstance(entry, dict) else ():
            if key in CONDITIONS:
                yield from (text for text in (inner if isinstance(inner, list) else [inner]) if isinstance(text, str))
            yield from conditions(inner)


@pytest.mark.parametrize("folder", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_no_condition_is_a_setting_that_is_no_boolean(folder: str) -> None:
    types = types_of_options()
    found = [
        (path.name, text)
        for path in (ROOT / "roles" / folder).glob("tasks/**/*.yml")
        for text in conditions(load(path))
        for part in re.split(r" and | or ", " ".join(text.split()))
        if types.get(part.strip(" ()").removeprefix("not "), "bool") != "bool"
    ]
    assert not found

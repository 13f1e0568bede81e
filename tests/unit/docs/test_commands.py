# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands in the documentation: what they set by -e is accepted as it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import settings_catalogue
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.convert_setting_values import (
    coerce_to_declared_type,
)

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "playbooks").glob("*.yml"))]
CATALOGUE = settings_catalogue.load_catalogue(ROOT)
_TEXT = re.compile(r"-e ([A-Za-z_]\w*)=([^\s'`|\]]+)")
_JSON = re.compile(r"-e '(\{.*?\})'(?=[\s`]|$)", re.MULTILINE)
#: Of values that stand for those of the reader, or that a shell or Ansible still replaces.
_PLACEHOLDER = re.compile(r"[<>$…{}]")


def given_values(text: str) -> Iterator[tuple[str, object]]:
    for name, value in _TEXT.findall(text):
        yield name, value.rstrip(",;)")
    for document in _JSON.findall(text):
        if "…" not in document and ": value" not in document:
            yield from json.loads(document).items()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_value_of_a_documented_command_has_the_type_of_its_setting(page: Path) -> None:
    for name, value in given_values(page.read_text(encoding="utf-8")):
        if name in CATALOGUE.settings and not (isinstance(value, str) and _PLACEHOLDER.search(value)):
            coerce_to_declared_type(CATALOGUE.settings[name], value, page.name)


def test_values_are_found_in_both_forms() -> None:
    text = '-e preset=a -e fine_tuning_count=3 \\\n  -e \'{"stack": ["rhoai"]}\' --tags settings'
    assert list(given_values(text)) == [("preset", "a"), ("fine_tuning_count", "3"), ("stack", ["rhoai"])]

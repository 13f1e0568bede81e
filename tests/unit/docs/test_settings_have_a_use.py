# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every setting is read by something, and is set by something of this repository or has a use on a page of the docs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import settings_catalogue

ROOT = Path(__file__).parents[3]
SETTINGS = settings_catalogue.load_catalogue(ROOT).settings
#: Secrets have an implicit setting for their file.
DECLARED = {name: one for name, one in SETTINGS.items() if not name.endswith("_file") or one.default is not None}
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


#: Their names are put together where they are read.
PUT_TOGETHER = {"cluster_ipi_compute_type"}


def words(paths: Iterable[Path]) -> set[str]:
    """All names in these text files."""
    return {
        word
        for path in paths
        if path.is_file() and path.suffix not in (".png", ".gz", ".pyc")
        for word in WORD.findall(path.read_text(encoding="utf-8", errors="replace"))
    }


def files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in (ROOT / folder).rglob("*")]


def test_every_setting_is_set_here_or_has_a_use_on_a_page() -> None:
    pages = words(path for path in files("docs") if path.name != "settings.md")
    elsewhere = pages | words(files("group_vars", "playbooks", "inventories", "molecule", "skeletons", "tests"))
    of_roles = {role: words((ROOT / "roles" / role).rglob("*")) for role in {one.role for one in DECLARED.values()}}
    unused = [
        name
        for name, setting in DECLARED.items()
        if name not in elsewhere and not any(name in found for role, found in of_roles.items() if role != setting.role)
    ]
    assert unused == []


def test_every_setting_is_read() -> None:
    of_roles = [path for path in files("roles") if path.parent.name != "defaults" and path.name != "argument_specs.yml"]
    found = words(of_roles) | words(files("plugins", "playbooks"))
    found |= PUT_TOGETHER
    assert [name for name, setting in DECLARED.items() if name not in found and not setting.secret] == []

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The changelog of a release that is not out yet follows renamed modules, and yamllint does not read its file."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]


def test_the_changelog_names_new_modules_that_exist_in_alphabetical_order() -> None:
    changelog = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text(encoding="utf-8"))
    for version, release in changelog["releases"].items():
        names = [module["name"] for module in release.get("modules", [])]
        assert names == sorted(names), version
        missing = [name for name in names if not (ROOT / "plugins" / "modules" / f"{name}.py").is_file()]
        assert missing == [], version

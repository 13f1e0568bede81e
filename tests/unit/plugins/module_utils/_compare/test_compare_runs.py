# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sides of a comparison: warnings of each run, and the settings that differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils import _files
from ansible_collections.perfscale.seatrial.plugins.module_utils._compare import point_pairs, run_side


def made(top: Path, provenance: dict[str, Any], settings: dict[str, Any], warnings: list[str]) -> Path:
    top.mkdir()
    for name, document in (
        ("run.yml", {"id": top.name}),
        ("provenance.yml", {"settings": provenance}),
        ("settings.yml", settings),
        ("verdict.json", {"verdict": "pass", "warnings": warnings}),
    ):
        _files.write_yaml(top / name, document) if name.endswith("yml") else _files.write_json(top / name, document)
    return top


def test_what_makes_the_figures_of_a_run_doubtful_is_said_in_its_comparison(tmp_path: Path) -> None:
    notes: list[str] = []
    side = run_side.read_side(made(tmp_path / "t1122-aaaaaa", {}, {}, ["The machine was busy."]), [], notes)
    assert (side.verdict, notes) == ("pass", ["t1122-aaaaaa: The machine was busy."])


def test_a_setting_that_only_one_run_set_is_compared_with_the_default_of_the_other(tmp_path: Path) -> None:
    kept = {"keep": [{"value": True}], "same": [{"value": False}]}
    sides = [
        run_side.read_side(made(tmp_path / name, provenance, {"keep": False, "same": False}, []), [], [])
        for name, provenance in (("t1122-aaaaaa", {}), ("t1122-aaaaab", kept))
    ]
    found = point_pairs.settings([one.settings for one in sides], [one.run.settings for one in sides])
    assert found == [{"name": "keep", "values": [False, True]}]

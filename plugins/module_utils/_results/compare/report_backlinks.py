# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Add links from the report of each compared run to the comparison page, and back.

The link is inserted between two comments of the report's template, and recorded in report/comparisons.json, from which
a report that is written again includes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import DataError

from ..report import page_content, write_report

#: Comments around the replaced part of a report, and the template of that part.
BEGIN, END = "<!-- comparisons -->", "<!-- end of comparisons -->"
FRAGMENT = "comparisons.html.j2"
#: Maximum number of comparisons that a report links to, the newest.
MOST = 10


def add(tops: Iterable[Path], target: Path, title: str, made: str, template: Path) -> list[str]:
    """Link from the report of each run to the page ``target``; return notes on those that could not be changed.

    template: of the comparison; without a template of the links beside it, no links are added.
    """
    fragment = template.parent / FRAGMENT
    notes = []
    for top in dict.fromkeys(tops):
        folder = top / "report"
        if not fragment.is_file() or not (folder / "index.html").is_file():
            continue
        try:
            with write_report.alone(folder):
                _add(folder, target, title, made, fragment)
        except (OSError, DataError) as error:
            notes.append(f"{folder / 'index.html'} has no link to the comparison: {error}")
    return notes


def _add(folder: Path, target: Path, title: str, made: str, fragment: Path) -> None:
    path = os.path.relpath(target, folder)
    entries = [one for one in page_content.comparisons(folder) if one["path"] != path]
    entries = [*entries, {"path": path, "title": title, "made": made}][-MOST:]
    document = {"schema": "comparisons/1", "comparisons": entries}
    files.write_json(folder / page_content.COMPARISONS, document, "comparisons/1")
    whole = (folder / "index.html").read_text(encoding="utf-8")
    before, begin, rest = whole.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if begin and end:
        links = write_report.render(fragment, {"comparisons": entries}).strip()
        files.replace_text(folder / "index.html", f"{before}{links}{after}")


def back(top: Path, target: Path) -> str:
    """Return the relative path from the page ``target`` to the report of a run, empty without a report."""
    index = top / "report" / "index.html"
    return os.path.relpath(index, target.parent) if index.is_file() else ""

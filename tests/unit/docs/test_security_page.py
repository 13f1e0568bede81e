# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests that SECURITY.md names for its promises exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
#: A file of tests, of which the page may write the last folders only, or a folder of them.
TESTS = re.compile(r"`((?:[\w/]+/)?test_\w+\.py|tests/[\w/]+/)`")


def test_each_test_that_the_page_names_exists() -> None:
    names = TESTS.findall((ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(names) > 50, "the pattern finds them"
    paths = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    ends = {f"/{path}" for path in paths}
    for name in names:
        known = (ROOT / name).is_dir() if name.endswith("/") else any(end.endswith(f"/{name}") for end in ends)
        assert known, f"SECURITY.md names {name}"

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a hypervisor took away, as Linux counts it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import load_generator_health


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cpu  10 1 2 80 3 0 1 25 7 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n", (25, 122)),  # guests are in the first already
        ("cpu  10 1 2 80\n", None),  # an old kernel
        ("no numbers here\n", None),
        ("", None),
    ],
)
def test_the_first_line_has_all_processors_together(
    tmp_path: Path, text: str, found: load_generator_health.Reading
) -> None:
    (tmp_path / "stat").write_text(text, encoding="ascii")
    assert load_generator_health.stolen_and_total_cpu_ticks(tmp_path / "stat") == found


def test_where_the_system_does_not_say_nobody_knows(tmp_path: Path) -> None:
    assert load_generator_health.stolen_and_total_cpu_ticks(tmp_path / "stat") is None
    assert (
        load_generator_health.cpu_steal_share(None, (1, 2)) is None
        and load_generator_health.cpu_steal_share((1, 2), None) is None
    )
    assert load_generator_health.cpu_steal_share((1, 2), (1, 2)) is None, "no time has passed"


def test_the_share_is_of_the_time_between_two_readings() -> None:
    assert load_generator_health.cpu_steal_share((100, 1000), (130, 1200)) == 0.15

# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Durations as Go prints them."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("11h59m0s", 43140.0), ("2h0m0s", 7200.0), ("1m2.5s", 62.5), ("850ms", 0.85), ("12.5µs", 1.25e-5)],
        *[("3us", 3e-6), ("40ns", 4e-8)],
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert formats.parse_go_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "3", "h", "3 h", "3x", "-3s", "1h and 2m"])
def test_another_text_is_no_duration(text: str) -> None:
    assert formats.parse_go_duration(text) is None

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A figure as text."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.report.kpi_text_filters import (
    format_kpi_value,
)


@pytest.mark.parametrize(
    ("kpi", "text"),
    [
        ({"value": 0.0, "interval": [0.0, 0.039]}, "≤ 39 ms"),  # not told from none
        ({"value": 0.02, "interval": [0.001, 0.039]}, "20 ms"),
        ({"value": 0.0}, "0 s"),
        ({"value": None, "at_least": 14.6}, "≥ 14.6 s"),
        ({"value": None}, "–"),
    ],
)
def test_a_value_or_its_bound(kpi: dict[str, Any], text: str) -> None:
    assert format_kpi_value({"unit": "s", **kpi}) == text

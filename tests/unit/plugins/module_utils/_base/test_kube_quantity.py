# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Quantities as an API server reads them."""

from __future__ import annotations

import math

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.formats import (
    is_kube_quantity,
    parse_kube_quantity,
)
from hypothesis import given
from hypothesis import strategies as st

DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("1.5e-2", 0.015),
        (".5", 0.5),
        ("5.", 5),
        ("100n", 1e-7),
        ("250u", 2.5e-4),
        ("500m", 0.5),
        ("+2", 2),
        ("2k", 2000),
        ("1Gi", 2**30),
        ("1.5Ki", 1536),
        ("1Ei", 2**60),
        (3, 3),
    ],
)
def test_a_quantity_is_a_number(text: object, number: float) -> None:
    assert parse_kube_quantity(text) == pytest.approx(number, rel=1e-12)
    assert is_kube_quantity(text)


@pytest.mark.parametrize("text", ["", ".", "e3", "1K", "1ki", "10Gigs", "1 Gi", "0x10", "1e", "1e3Gi", "nan", "1mi"])
def test_other_text_is_no_quantity(text: str) -> None:
    assert math.isnan(parse_kube_quantity(text))
    assert not is_kube_quantity(text)


def test_a_request_is_not_negative() -> None:
    assert parse_kube_quantity("-1") == -1
    assert not is_kube_quantity("-1")


@given(st.integers(0, 10**9), st.sampled_from(DECIMAL))
def test_a_decimal_suffix_is_a_power_of_a_thousand(number: int, suffix: str) -> None:
    power = 3 * (DECIMAL.index(suffix) - DECIMAL.index(""))
    assert parse_kube_quantity(f"{number}{suffix}") == pytest.approx(parse_kube_quantity(f"{number}e{power}"))

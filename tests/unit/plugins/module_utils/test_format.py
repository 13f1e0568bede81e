"""Figures as people read them."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils import _format
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"), (0.0000421, "42 µs"), (0.00342, "3.42 ms"), (0.0999, "99.9 ms"), (0.85, "850 ms"), (0.9999, "1 s"),
        (42.13, "42.1 s"), (119.96, "120 s"), (185, "3 min 5 s"), (7199.9, "120 min 0 s"), (7800, "2 h 10 min"),
        (-0.05, "-50 ms"),
    ],
)  # fmt: skip
def test_durations(value, text):
    assert _format.seconds(value) == text


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (None, "s", "–"), (12, "workloads", "12 workloads"), (1, "workloads", "1 workload"), (0.7312, "1/s", "0.73/s"),
        (123456.7, "", "123,457"), (0.0123, "GPU h", "0.012 GPU h"), (float("nan"), "", "–"),
    ],
)  # fmt: skip
def test_values(amount, unit, text):
    assert _format.value(amount, unit) == text


@given(st.floats(1e-6, 1e7))
def test_a_duration_is_never_empty_and_has_a_unit(value):
    assert _format.seconds(value).split()[-1] in ("µs", "ms", "s", "min")


@pytest.mark.parametrize(("names", "text"), [([], "none"), (["a"], "a"), (["a", "b", "c"], "a, b and 1 more")])
def test_long_lists_say_how_many_more(names, text):
    assert (_format.listed(names, 2) or "none") == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pods_running_first", "first pod running"),
        ("pods_created", "pods created"),
        ("quota_reserved", "quota reserved"),
    ],
)
def test_stages(name, text):
    assert _format.stage(name) == text

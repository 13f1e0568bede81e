"""Figures as people read them."""

from __future__ import annotations

import time
from math import isfinite, isinf

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
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
    assert formats.format_duration(value) == text


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (None, "s", "–"), (12, "workloads", "12 workloads"), (1, "workloads", "1 workload"), (0.7312, "1/s", "0.73/s"),
        (1, "requests/s", "1 request/s"),
        (2, "requests/s", "2 requests/s"),
        (1.0, "1/s", "1/s"), (1, "bytes", "1 byte"),
        (123456.7, "", "123,457"), (0.0123, "GPU h", "0.012 GPU h"), (float("nan"), "", "–"),
    ],
)  # fmt: skip
def test_values(amount, unit, text):
    assert formats.format_with_unit(amount, unit) == text


@given(st.floats(1e-6, 1e7))
def test_a_duration_is_never_empty_and_has_a_unit(value):
    assert formats.format_duration(value).split()[-1] in ("µs", "ms", "s", "min")


@pytest.mark.parametrize(("names", "text"), [([], "none"), (["a"], "a"), (["a", "b", "c"], "a, b and 1 more")])
def test_long_lists_say_how_many_more(names, text):
    assert (formats.format_list(names, 2) or "none") == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pods_running_first", "first pod running"),
        ("pods_created", "pods created"),
        ("quota_reserved", "quota reserved"),
    ],
)
def test_stages(name, text):
    assert formats.stage_display_name(name) == text


UNITS = ("s", "1/s", "%", "GPU h", "workloads", "bytes", "pods", "attempts", "")


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        (2, "s", 2.0), (0.5, "%", 0.5), ("2", "s", 2.0), ("2 s", "s", 2.0), ("150ms", "s", 0.15), ("42 µs", "s", 42e-6),
        ("42 us", "s", 42e-6), ("3 min 5 s", "s", 185.0), ("2 h 10 min", "s", 7800.0), ("-3 min 5 s", "s", -185.0),
        ("95 %", "%", 95.0), ("95%", "%", 95.0), ("0.73/s", "1/s", 0.73), ("0.73 1/s", "1/s", 0.73),
        ("1 workload", "workloads", 1.0), ("12 workloads", "workloads", 12.0), ("123,457", "", 123457.0),
        ("5e-05 GPU h", "GPU h", 5e-05), (" .5 s ", "s", 0.5),
        ("20m", "s", 1200.0), ("1h30m", "s", 5400.0), ("2 d", "s", 172800.0),
    ],
)  # fmt: skip
def test_values_are_read(text, unit, amount):
    assert formats.parse_number_with_unit(text, unit) == pytest.approx(amount, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "unit", "words"),
    [
        ("2 GB", "s", "'2 GB' has another unit than s"),
        ("2 s", "%", "'2 s' has another unit than %"),
        ("2 s", "", "'2 s' has another unit than a plain number"),
        ("5 s 2 min", "s", "'5 s 2 min' has another unit than s"),
        ("2 s 3", "s", "'2 s 3' has another unit than s"),
        ("1,5 s", "s", "'1,5 s' has another unit than s"),
        ("fast", "s", "'fast' is no number with or without the unit s"),
        ("–", "", "'–' is no number"),
        ("", "s", "'' is no number"),
        (True, "s", "True is no number"),
        (None, "s", "None is no number"),
        ([2], "s", "[2] is no number"),
        (float("nan"), "s", "nan is no number"),
        ("1e999", "", "is too large a number"),
    ],
)
def test_a_value_that_is_none_or_of_another_unit_is_refused(text, unit, words):
    with pytest.raises(InputError) as error:
        formats.parse_number_with_unit(text, unit)
    assert words in str(error.value)


@given(st.floats(-1e12, 1e12), st.sampled_from(UNITS))
def test_reading_a_value_is_the_inverse_of_writing_it(amount, unit):
    read = formats.parse_number_with_unit(formats.format_with_unit(amount, unit), unit)
    size = abs(amount)
    digits = 0.005 if unit != "s" else 0.0  # number() writes two decimals below 1
    whole = 0.0 if unit != "s" else 30.0 if size >= 7199 else 0.5 if size >= 119 else 0.0
    assert abs(read - amount) <= max(0.005 * size, digits, whole, 1e-6) * 1.000001


@given(st.integers(-(10**14), 10**14), st.sampled_from([unit for unit in UNITS if unit != "s"]))
def test_whole_numbers_come_back_exactly(amount, unit):
    assert formats.parse_number_with_unit(formats.format_with_unit(amount, unit), unit) == amount


@given(st.text(max_size=12), st.sampled_from(UNITS))
def test_any_text_is_a_finite_number_or_an_error(text, unit):
    try:
        assert isfinite(formats.parse_number_with_unit(text, unit))
    except InputError:
        pass


@pytest.mark.parametrize(("text", "capitalized"), [("", ""), ("max is 3 Runs", "Max is 3 Runs"), ("A b", "A b")])
def test_only_the_first_letter_of_a_sentence_changes(text, capitalized):
    assert formats.capitalize_first_letter(text) == capitalized


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-26T08:00:00Z", "2026-11-26T08:00:00Z"),
        ("2026-11-26T17:00:00+09:00", "2026-11-26T08:00:00Z"),
        ("2026-11-25T23:30:00.5-08:30", "2026-11-26T08:00:00.500000Z"),
        ("2026-11-26 08:00:00", "2026-11-26T08:00:00Z"),  # without a zone: that of all our files
        ("yesterday", "yesterday"),
        (None, ""),
    ],
)
def test_times_of_any_zone_are_compared_in_utc(text, utc, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert formats.normalize_time_to_utc_text(text) == utc
        moment = formats.parse_timestamp(text)
        assert moment is None or moment.strftime("%d %H:%M") == "26 08:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("123456789", 123456789), ("1234567890", None), ("\u00b2", None), ("\u0663", None)]
    + [(text, None) for text in ("", "-1", "+1", " 1", "1\n", "1_0", None, 7)],
)
def test_a_whole_number_of_others_has_only_ascii_digits_and_not_many(text: object, number: int | None) -> None:
    assert formats.parse_whole_number(text) == number


@pytest.mark.parametrize(
    ("text", "count"), [("8", 8), ("8k", 8000), ("1e999", 0), ("-8", 0), ("nothing", 0), (None, 0), ("500m", 0)]
)
def test_a_count_of_a_server_is_a_whole_number_that_is_not_negative(text: object, count: int) -> None:
    assert formats.parse_kube_count(text) == count
    assert not isinf(formats.parse_kube_quantity(text))

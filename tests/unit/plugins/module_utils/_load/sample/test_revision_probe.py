# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Soundings count where they lie between the canary's writes, and are given up where they do not."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._load.sample.etcd_revision_probes import (
    PROBATION,
    ProbeValidator,
)
from hypothesis import given
from hypothesis import strategies as st

TOLD = list[tuple[float, float, str]]


def vetting() -> tuple[ProbeValidator, TOLD]:
    told: TOLD = []
    return ProbeValidator(lambda *one: told.append(one)), told


def sound(of: ProbeValidator, at: float, version: int) -> None:
    of.probed(at, at + 0.001, version, of.written())


def test_they_count_once_enough_in_a_row_have_fitted() -> None:
    vet, told = vetting()
    vet.take_canary_write(0.0, 10)
    for number in range(1, PROBATION + 3):
        sound(vet, number - 0.5, number * 10 + 5)
        assert len(told) == (0 if number <= PROBATION else number - 1)
        vet.take_canary_write(float(number), number * 10 + 10)
    assert told[0] == (0.5, 0.501, "15") and len(told) == PROBATION + 2
    assert not vet.foreign


def test_one_that_does_not_fit_ends_it_for_good() -> None:
    for version in (9, 20, 10**9):
        vet, told = vetting()
        vet.take_canary_write(0.0, 10)
        sound(vet, 0.5, version)
        vet.take_canary_write(1.0, 20)
        assert vet.foreign
        for number in range(2, 2 * PROBATION):
            sound(vet, number - 0.5, number * 10 + 5)
            vet.take_canary_write(float(number), number * 10 + 10)
        assert told == []


def test_without_a_write_before_it_nothing_can_be_said_of_it() -> None:
    vet, told = vetting()
    for _number in range(2 * PROBATION):
        sound(vet, 0.5, 5)
    vet.take_canary_write(1.0, 20)
    assert told == [] and not vet.foreign


def test_a_write_that_was_under_way_while_it_was_asked_does_not_bound_it() -> None:
    vet, told = vetting()
    vet.take_canary_write(0.0, 10)
    sound(vet, 1.0, 25)
    vet.take_canary_write(0.9, 20)  # sent before the sounding, committed before it too
    assert not vet.foreign
    vet.take_canary_write(2.0, 30)
    assert not vet.foreign and told == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3)), max_size=200))
def test_of_one_etcd_all_fit_and_are_told_in_order(steps: list[tuple[bool, int, int]]) -> None:
    """Commits of others come in between at any time, writes and soundings one after the other or together."""
    vet, told = vetting()
    now, revision, above = 0.0, 1, 0
    asked = 0
    for is_write, before, after in steps:
        sent, above = now, vet.written()
        revision += before + is_write
        seen = revision
        revision += after
        now += 0.002
        if is_write:
            vet.take_canary_write(sent, seen)
        else:
            vet.probed(sent, now, seen, above)
            asked += 1
    assert not vet.foreign
    assert len(told) <= asked and told == sorted(told)

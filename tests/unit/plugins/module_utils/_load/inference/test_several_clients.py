# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress of clients in one line."""

from __future__ import annotations

from collections import Counter

from ansible_collections.perfscale.seatrial.plugins.module_utils._load.inference.several_clients import (
    ClientReport,
    join_reports,
)


def test_progress_counts_what_earlier_calls_have_sent_and_rates_what_this_one_has_ended() -> None:
    report = ClientReport(sent=1_500, open=20, outcomes=Counter(succeeded=1_400, failed=80), first_token=0.0326)
    assert report.progress_line("001", sent_before=500, total=4_000, seconds=10) == (
        "requests 001: 2,000/4,000 sent, 1,400 succeeded, 80 failed, 20 open, "
        "first token after 33 ms (median), 148.0/s, 10 s"
    )


def test_progress_of_nothing_yet_divides_by_no_zero() -> None:
    line = join_reports([ClientReport()]).progress_line("001", 0, 0, 0.0)
    assert line == "requests 001: 0 sent, 0 succeeded, 0 open, 0.0/s, 0 s"

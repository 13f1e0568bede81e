# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of requests whose times are known exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge import headline
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.kpi import write_kpis
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.timeline import write_timeline
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import run_reader
from request_files import START, request, write_requests

ROLES = Path(__file__).parents[6] / "roles"
DEFINITIONS = [
    str(ROLES / "results" / "files" / "kpis" / "workload.yml"),
    str(ROLES / "serving" / "files" / "kpis.yml"),
]
SLO = "serving_slo: {ttft: 0.2, tpot: 0.05, share: 0.95}\n"
FAILED = {"outcome": "failed", "first_token": None, "last_token": None, "times": [], "output_tokens": 0, "chunks": 0}


def figures(tmp_path, records, offsets, steps=(), settings=SLO, servers=(), **options):
    """Return the KPIs of a point with these requests, by name, and the first sentence."""
    folder = write_requests(tmp_path / "points" / "001", records, offsets, steps, **options)
    (folder / "settings.yml").write_text(settings)
    if servers:
        (folder / "server.json").write_text(json.dumps({"servers": servers}))
    write_timeline.write_timeline(str(tmp_path))
    write_kpis.write_kpis(str(tmp_path), DEFINITIONS)
    run = run_reader.read_run_directory(tmp_path)
    kpis = {kpi["name"]: kpi for kpi in run.points[0].kpis or []}
    return kpis, headline.run_answer_sentence(run.points, {"001": ""})


def steady(count=40, apart=0.5, **more):
    return [request(index, index * apart, **more) for index in range(count)], [index * apart for index in range(count)]


def test_times_of_requests_are_those_of_the_files(tmp_path):
    kpis, answer = figures(tmp_path, *steady())
    assert kpis["ttft_p99"]["value"] == pytest.approx(0.1, abs=1e-5)
    assert kpis["tpot_p50"]["value"] == pytest.approx(0.01, abs=1e-5)
    assert kpis["token_gap_p99"]["value"] == pytest.approx(0.01, abs=1e-5) and kpis["token_gap_p99"]["n"] == 360
    assert kpis["total_p50"]["value"] == pytest.approx(0.19, abs=1e-5)
    assert kpis["client_lag_p99"]["value"] == pytest.approx(50e-6) and not kpis["client_lag_p99"]["simulated"]
    assert kpis["cached_share"]["value"] == 25
    assert kpis["slo_attainment"]["value"] == 100 and kpis["slo_attainment"]["note"] == "TTFT ≤ 200 ms, TPOT ≤ 50 ms"
    assert "requests/s within the objective: TTFT ≤ 200 ms, TPOT ≤ 50 ms" in answer[0] and "SIMULATED" in answer[0]


def conversation(number, cached, shared=0):
    """Return three turns, each of which adds 100 tokens to the prompt, and of which this many tokens were cached."""
    return [
        request(
            number * 3 + turn,
            number * 3.0 + turn,
            conversation=number,
            turn=turn,
            prompt_tokens=shared + 100 * (turn + 1),
            cached_tokens=tokens,
        )
        for turn, tokens in enumerate(cached)
    ]


def test_a_turn_found_its_conversation_if_most_of_the_turn_before_was_cached(tmp_path):
    # The whole blocks of 16 tokens of each turn before; then a server that had seen only the first turn, and one that
    # had seen nothing.
    records = [*conversation(0, (0, 96, 192)), *conversation(1, (0, 96, 96)), *conversation(2, (0, 0, 192))]
    kpis, _answer = figures(tmp_path, records, [float(index) for index in range(9)])
    affinity = kpis["prefix_affinity"]
    assert affinity["value"] == pytest.approx(100 * 4 / 6) and affinity["n"] == 6 and affinity["simulated"]


def with_answers(number, cached):
    """Return turns with prompts of 50 tokens and answers of 200, both of which the prompts after them repeat."""
    rows = enumerate(zip((50, 300, 550), cached, strict=True))
    return [
        request(
            number * 3 + turn,
            number * 3.0 + turn,
            conversation=number,
            turn=turn,
            prompt_tokens=prompt,
            cached_tokens=tokens,
            output_tokens=200,
        )
        for turn, (prompt, tokens) in rows
    ]


@pytest.mark.parametrize(
    ("same_server", "only_the_first_turn"),
    [((0, 48, 288), (0, 48, 48)), ((0, 240, 544), (0, 240, 240))],  # whole blocks of 16 tokens
    ids=["prompts are cached", "prompts and answers are cached"],
)
def test_long_answers_that_a_server_has_cached_are_not_the_turn_before(tmp_path, same_server, only_the_first_turn):
    records = [*with_answers(0, same_server), *with_answers(1, only_the_first_turn)]
    kpis, _answer = figures(tmp_path, records, [float(index) for index in range(6)])
    assert kpis["prefix_affinity"]["value"] == 75 and kpis["prefix_affinity"]["n"] == 4


def test_what_all_conversations_begin_with_is_no_conversation_that_was_found(tmp_path):
    records = [*conversation(0, (992, 992, 992), 1000), *conversation(1, (992, 1088, 1184), 1000)]
    settings = f"{SLO}serving_shared_prefix_tokens: 1000\n"
    kpis, _answer = figures(tmp_path, records, [float(index) for index in range(6)], settings=settings)
    assert kpis["prefix_affinity"]["value"] == 50 and kpis["cached_share"]["value"] > 80


def test_without_later_turns_nothing_is_said_of_conversations(tmp_path):
    kpis, _answer = figures(tmp_path, *steady(conversation=0, turn=0))
    assert kpis["prefix_affinity"]["value"] is None and "no later turn" in kpis["prefix_affinity"]["note"]


def test_one_stall_is_in_the_longest_gap_and_not_in_the_mean_of_a_request(tmp_path):
    records, offsets = steady()
    records[3] = request(3, 1.5, gaps=(0.01,) * 4 + (0.3,) + (0.01,) * 4)
    kpis, _answer = figures(tmp_path, records, offsets)
    assert kpis["stall_max"]["value"] == pytest.approx(0.3) == kpis["token_gap_max"]["value"]
    assert kpis["tpot_p99"]["value"] < 0.05


def test_rates_leave_out_the_time_while_a_load_was_interrupted(tmp_path):
    # Two requests a second, and after the first 20 of them nothing for 100 s, by which the origin of the offsets moves.
    records, offsets = steady()
    later = [request(index, 100 + index * 0.5) for index in range(20, 40)]
    start = {"type": "start", "at": 100 + records[0]["sent"]}
    kpis, _answer = figures(tmp_path, [*records[:20], start, *later], offsets)
    assert kpis["request_rate"]["value"] == pytest.approx(2, rel=0.05)
    assert kpis["output_rate"]["value"] == pytest.approx(20, rel=0.05)
    assert "without 100 s of interruption" in kpis["request_rate"]["note"]


def test_rates_leave_out_the_filling_and_the_draining_of_the_server(tmp_path):
    # Two requests a second for 20 s, the last of which takes 27 s: the rate over all of the time would be 0.8.
    records, offsets = steady()
    records[-1] = request(39, 19.5, gaps=(3.0,) * 9)
    kpis, _answer = figures(tmp_path, records, offsets, settings="serving_accelerators: 4\n")
    assert kpis["request_rate"]["value"] == pytest.approx(2, rel=0.05)
    assert kpis["output_rate"]["value"] == pytest.approx(20, rel=0.05)
    assert kpis["output_rate_per_gpu"]["value"] == pytest.approx(5, rel=0.05)


def test_a_chunk_of_several_tokens_counts_as_these(tmp_path):
    records, offsets = steady(output_tokens=30)
    kpis, _answer = figures(tmp_path, records, offsets)
    assert kpis["output_rate"]["value"] == pytest.approx(60, rel=0.05)
    assert kpis["tpot_p50"]["value"] == pytest.approx(0.09 / 29, rel=0.01)


def test_requests_that_failed_are_slower_than_all_others_and_miss_the_objective(tmp_path):
    records, offsets = steady()
    records[5:10] = [request(index, index * 0.5, **FAILED) for index in range(5, 10)]
    kpis, _answer = figures(tmp_path, records, offsets)
    assert kpis["tpot_p95"]["value"] is None and "did not succeed" in kpis["tpot_p95"]["note"]
    assert kpis["ttft_p99"]["value"] is None
    assert kpis["slo_attainment"]["value"] == 87.5
    assert kpis["workloads_failed"]["value"] == 5


def test_failed_attempts_are_those_that_were_repeated_and_those_of_requests_that_failed(tmp_path):
    records, offsets = steady()
    records[2]["attempts"] = 3
    records[4] |= FAILED | {"error": "status", "status": 500}
    records[5] |= FAILED | {"outcome": "refused", "error": "status", "status": 429, "attempts": 2}
    errors = figures(tmp_path, records, offsets)[0]["errors"]
    assert (errors["value"], errors["of"], errors["writers"]) == (5, 43, ["server"])


def test_figures_of_pods_are_left_out_and_the_others_speak_of_requests(tmp_path):
    kpis, _answer = figures(tmp_path, *steady())
    assert not {"time_to_running_p95", "time_to_scheduled_p95", "gpu_hours_used", "waiting_p95"} & kpis.keys()
    assert kpis["workloads_succeeded"]["title"] == "Requests succeeded"
    assert not any("workload" in kpi["title"] + kpi["help"] + kpi["unit"] for kpi in kpis.values())


def stepped(seconds_at):
    """Return requests at 5, 10, 20 and 40 a second for 10 s each, with the time to first token of each rate."""
    records, offsets, begin = [], [], 0.0
    steps = [(float(rate), 10.0) for rate in seconds_at]
    for rate, length in steps:
        for place in range(int(rate * length)):
            offset = begin + place / rate
            records.append(request(len(records), offset, ttft=seconds_at[rate](place)))
            offsets.append(offset)
        begin += length
    return records, offsets, steps


def test_steps_leave_out_the_time_while_a_load_was_interrupted(tmp_path):
    # Interrupted after 15 s, in the second step, for 60 s.
    records, offsets, steps = stepped(dict.fromkeys((5, 10, 20), lambda _place: 0.05))
    whole, _answer = figures(tmp_path / "whole", records, offsets, steps)
    number = offsets.index(15.0)
    late = [request(index, offset + 60, ttft=0.05) for index, offset in enumerate(offsets) if index >= number]
    start = {"type": "start", "at": 60 + records[0]["due"]}
    kpis, _answer = figures(tmp_path / "late", [*records[:number], start, *late], offsets, steps)
    for name in ("slo_capacity", "ttft_p99"):
        assert (kpis[name]["value"], kpis[name]["n"]) == (pytest.approx(whole[name]["value"]), whole[name]["n"])


def test_the_capacity_lies_between_the_last_step_that_kept_the_objective_and_the_next(tmp_path):
    records, offsets, steps = stepped(
        {
            5: lambda _place: 0.05,
            10: lambda _place: 0.05,
            20: lambda place: 0.3 if place % 50 == 0 else 0.05,
            40: lambda _place: 2.0,
        }
    )
    kpis, answer = figures(tmp_path, records, offsets, steps)
    capacity = kpis["slo_capacity"]
    assert 20 <= capacity["value"] < 21 and capacity["interval"] == [20, 40]
    assert capacity["confidence"]["low"] <= 20 and capacity["confidence"]["high"] == 40
    expected = (
        "up to 20.6 requests/s (95 %: 20 to 40): TTFT ≤ 200 ms, TPOT ≤ 50 ms for 95 % of the requests (SIMULATED)"
    )
    assert answer == [f"The servers keep the objective {expected}"]
    assert kpis["saturation_knee"]["value"] == 20


def test_a_capacity_beyond_the_last_step_is_a_bound(tmp_path):
    records, offsets, steps = stepped(dict.fromkeys((5, 10, 20), lambda _place: 0.05))
    kpis, answer = figures(tmp_path, records, offsets, steps, simulated=False)
    assert kpis["slo_capacity"]["value"] is None and kpis["slo_capacity"]["at_least"] == 20
    assert answer == [
        "The servers keep the objective up to 20 requests/s, the highest rate, or more: "
        "TTFT ≤ 200 ms, TPOT ≤ 50 ms for 95 % of the requests"
    ]


def test_no_step_that_kept_the_objective_is_said(tmp_path):
    records, offsets, steps = stepped(dict.fromkeys((5, 10), lambda _place: 0.5))
    kpis, answer = figures(tmp_path, records, offsets, steps)
    assert kpis["slo_capacity"]["value"] is None and "the first step, 5/s, missed it" in kpis["slo_capacity"]["note"]
    assert answer[0].startswith("The servers miss the objective even at 5 requests/s, the lowest rate: TTFT ≤ 200 ms")


def searching(shares, count=200):
    """Return requests of a search: for each rate, the share of its requests that kept the objective."""
    records, offsets, begin = [], [], 0.0
    for rate, share in shares:
        records.append({"type": "step", "index": len(offsets), "rate": rate})
        for place in range(count):
            ttft = 0.05 if place < share * count else 2.0
            records.append(request(len(offsets), begin + place / rate, ttft=ttft))
            offsets.append(begin + place / rate)
        begin += count / rate + 10
    return records, offsets


SEARCHED = SLO + "serving_search: {low: 1, high: 100}\n"


def test_a_search_gives_the_capacity_with_its_bounds_in_the_first_sentence(tmp_path):
    steps = [(10, 1), (30, 0.1), (17, 1), (23, 0.2), (19, 1), (21, 0.5), (20, 1), (20.5, 0.4)]
    kpis, answer = figures(tmp_path, *searching(steps), settings=SEARCHED)
    capacity = kpis["slo_capacity"]
    low, high = capacity["confidence"]["low"], capacity["confidence"]["high"]
    assert 17 <= low < capacity["value"] < high <= 23 and 20 <= capacity["value"] <= 20.5
    assert capacity["n"] == len(steps) == len(capacity["labels"]["curve"])
    assert answer[0].startswith("The servers keep the objective up to 20.2 requests/s (95 %: ") and " to " in answer[0]
    assert kpis["slo_attainment"]["n"] == 1600


def test_a_search_that_never_missed_or_never_kept_the_objective_says_so(tmp_path):
    kept, _answer = figures(tmp_path / "kept", *searching([(90, 1), (100, 1), (100, 1), (100, 1)]), settings=SEARCHED)
    assert kept["slo_capacity"]["value"] is None and kept["slo_capacity"]["at_least"] is not None
    missed, answer = figures(tmp_path / "missed", *searching([(1.2, 0), (1.1, 0), (1, 0)]), settings=SEARCHED)
    assert missed["slo_capacity"]["value"] is None and "the lowest rate, 1/s, missed" in missed["slo_capacity"]["note"]
    assert answer[0].startswith("The servers miss the objective even at 1 request/s, the lowest rate: TTFT ≤ 200 ms")


def test_an_interrupted_step_of_a_search_is_left_out(tmp_path):
    records, offsets = searching([(10, 1), (30, 0.1), (17, 1), (23, 0.2)])
    kpis, _answer = figures(tmp_path / "a", records, offsets, settings=SEARCHED)
    more, _offsets = searching([(20, 0)])
    cut = [{**record, "index": record["index"] + 800, "outcome": "lost"} for record in more]
    again, _answer = figures(tmp_path / "b", [*records, *cut], [*offsets, *offsets[:200]], settings=SEARCHED)
    assert again["slo_capacity"]["value"] == pytest.approx(kpis["slo_capacity"]["value"])
    assert again["slo_capacity"]["n"] == 4


def test_a_search_without_a_completed_step_states_no_capacity(tmp_path):
    records, offsets = searching([(20, 1)])
    cut = [{**record, "outcome": "lost"} for record in records if record["type"] == "request"]
    kpis, answer = figures(tmp_path, [records[0], *cut], offsets, settings=SEARCHED)
    capacity = kpis["slo_capacity"]
    assert (capacity["value"], capacity["n"], capacity["note"]) == (None, 0, "no step was completed")
    assert capacity.get("confidence") is None and not any("keep the objective up to" in line for line in answer)


def test_the_servers_own_mean_stands_beside_ours_with_the_difference(tmp_path):
    name = "vllm:time_to_first_token_seconds"
    before = {f'{name}_sum{{model="a"}}': 1.0, f'{name}_count{{model="a"}}': 10.0}
    after = {f'{name}_sum{{model="a"}}': 1.0 + 40 * 0.08, f'{name}_count{{model="a"}}': 50.0}
    kpis, _answer = figures(tmp_path, *steady(), servers=[{"url": "http://a", "before": before, "after": after}])
    assert kpis["server_ttft_mean"]["value"] == pytest.approx(0.08)
    assert kpis["server_ttft_mean"]["note"] == "our mean is 100 ms, 20 ms more, over 40 requests"
    assert "do not report" in kpis["server_queue_mean"]["note"]


TTFT = "vllm:time_to_first_token_seconds"
SERVER = {"before": {}, "after": {f"{TTFT}_sum": 3.2, f"{TTFT}_count": 40.0}}


@pytest.mark.parametrize(
    ("settings", "urls", "known"),
    [
        ("serving_replicas: 1", ["http://service"], True),
        ("serving_replicas: 2", ["http://service"], False),
        ("serving_replicas: 2", ["http://a", "http://b"], True),
        ("{serving_replicas: 2, serving_metrics_url: 'http://a'}", ["http://a"], True),
    ],
)
def test_metrics_of_several_servers_behind_one_address_are_no_figure(tmp_path, settings, urls, known):
    folder = tmp_path / "points" / "001"
    folder.mkdir(parents=True)
    (folder / "deployment.json").write_text(json.dumps({"stages": {}}))
    servers = [{"url": url, **SERVER} for url in urls]
    kpis, _answer = figures(tmp_path, *steady(), settings=f"{settings}\n", servers=servers)
    assert kpis["server_ttft_mean"]["value"] == (pytest.approx(0.08) if known else None)
    if not known:
        assert "2 servers share 1 address" in kpis["server_ttft_mean"]["note"]


def test_metrics_of_servers_whose_number_followed_the_load_are_no_figure(tmp_path):
    folder = tmp_path / "points" / "001"
    folder.mkdir(parents=True)
    pods = [{"type": "pod", "pod": pod, "stage": "ready", "at": START, "since": START - 1} for pod in "ab"]
    session = {"type": "session", "anchor": {"wall": START, "monotonic": 100.0, "boot": "b"}}
    (folder / "scale.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in [session, *pods]))
    kpis, _answer = figures(tmp_path, *steady(), servers=[{"url": "http://service", **SERVER}])
    assert kpis["server_ttft_mean"]["value"] is None


#: The stages of servers that the run deployed at the point.
NEW = {"answers": [3.0, 3.2]}


@pytest.mark.parametrize(
    ("deployed", "seconds", "value", "note"),
    [
        ({"stages": NEW}, [0.4], 0.4, "one request before the load"),
        ({"stages": NEW, "earlier_servers": False}, [0.4, 0.7, 0.2], 0.7, "the longest of 3 servers"),
        ({"stages": NEW, "earlier_servers": True}, [0.4], None, "a server of an earlier point or attempt stayed"),
        ({"stages": NEW}, [], None, "an earlier version"),
        ({"stages": {}}, [0.4], None, "the servers were there already"),
    ],
)
def test_the_first_request_is_a_figure_only_of_new_servers(tmp_path, deployed, seconds, value, note):
    folder = tmp_path / "points" / "001"
    folder.mkdir(parents=True)
    (folder / "deployment.json").write_text(json.dumps(deployed))
    kpis, _answer = figures(tmp_path, *steady(), first_tokens=seconds)
    assert kpis["first_request"]["value"] == value and note in kpis["first_request"]["note"]
    assert kpis["time_to_ready"]["value"] == (pytest.approx(3.1) if deployed["stages"] else None)


def test_servers_that_the_run_did_not_deploy_have_no_first_request(tmp_path):
    kpis, _answer = figures(tmp_path, *steady(), first_tokens=[0.4])
    assert "first_request" not in kpis and "time_to_ready" not in kpis


def test_without_an_objective_nothing_is_compared_with_it(tmp_path):
    kpis, _answer = figures(tmp_path, *steady(), settings="serving_slo: {}\n")
    assert kpis["goodput"]["value"] is None and "set serving_slo" in kpis["goodput"]["note"]

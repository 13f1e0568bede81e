"""Run the test suites one after the other and count: suites.py [--long | --bench] [suite ...]

A failure never keeps the next suite from running. Each suite's whole output is in tests/output/<suite>.log; what failed
is shown at once. The last line is plain, ``N passed, N failed, N skipped``, and the exit code is 1 when any failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import leftovers
import lint_checks
import quick_versions
import sanity
import versions
from common import ROOT, VENV, end_all, locked, quiet_environment, run, run_logged, say, stop
from suite_prerequisites import OUTPUT, PROVIDED, needs_prerequisites, needs_rest, prepare, prepare_rest, show


@dataclass
class Count:
    """Numbers of tests of a suite that passed, failed and were not run, with reasons."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    coverage: str = ""

    def add(self, other: Count) -> None:
        """Add another suite's figures."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def skip(self, reason: str, number: int = 1) -> None:
        """Count ``number`` tests as not run for ``reason``."""
        self.skipped += number
        if reason not in self.reasons:
            self.reasons.append(reason)

    def fail(self, what: str) -> None:
        """Count one failure by name."""
        self.failed += 1
        self.failures.append(what)


def read_junit(path: Path, count: Count) -> None:
    """Add the figures of a JUnit file."""
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname', '')}::{case.get('name', '')}".strip(":")
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            count.fail(name)
        elif skipped is not None:
            count.skip(skipped.get("message") or f"{name}: {skipped.text or 'no reason given'}")
        else:
            count.passed += 1


def pytest(name: str, folders: list[str], *options: str, limit: float = 3000.0) -> Count:
    """Run pytest over ``folders``; a suite without tests is a failure, because tests were lost."""
    count, junit, log = Count(), OUTPUT / f"{name}.xml", OUTPUT / f"{name}.log"
    junit.unlink(missing_ok=True)
    there = [folder for folder in folders if (ROOT / folder).is_dir()]
    command = [str(VENV / "bin" / "python"), "-m", "pytest", "-q", "-ra", "--color=no", f"--junitxml={junit}"]
    env = quiet_environment(PYTHONUNBUFFERED="1")
    code = run_logged([*command, *options, *there], log, name, limit, env=env)
    if junit.exists():
        read_junit(junit, count)
    if code and not count.failed:
        count.fail(f"pytest ended with {code}" + (" (no test was found)" if code == 5 else ""))
    if count.failed:
        show(log, name)
    return count


def side_by_side(
    name: str,
    commands: dict[str, list[str]],
    limit: float,
    env: Callable[[str], dict[str, str]],
    in_turn: tuple[str, ...] = (),
    ready: Callable[[str], None] = lambda _what: None,
) -> Count:
    """Run commands of the virtual environment, two at a time; each is one test, passed when it ends with 0.

    Those of ``in_turn`` run one after the other, as they want the same thing. ready: returns when a command can run.
    """
    count = Count()
    together = [what for what in commands if what in in_turn]
    turns = [[what] if what not in in_turn else together for what in commands if what not in together[1:]]

    def one(what: str) -> tuple[str, int, float, Path]:
        log = OUTPUT / f"{name}-{what.replace(' ', '-')}.log"
        command = [str(VENV / "bin" / commands[what][0]), *commands[what][1:]]
        began = time.monotonic()
        code = run_logged(command, log, what, limit, env=env(what), heartbeat=False)
        return what, code, time.monotonic() - began, log

    def worker(whats: list[str]) -> None:
        for what in whats:
            ready(what)
            _what, code, seconds, log = one(what)
            say(f"  {what}: {'ok' if code == 0 else 'FAILED'} ({seconds:.1f} s)")
            if code == 0:
                count.passed += 1
            else:
                count.fail(what)
                show(log, f"{name} {what}", 100)

    with ThreadPoolExecutor(max_workers=2) as pool:
        for future in [pool.submit(worker, whats) for whats in turns]:
            future.result()
    return count


def lint(name: str, long: bool) -> Count:
    """Static checks; each check counts as one test."""
    env = lint_checks.environment()
    return side_by_side(name, lint_checks.CHECKS, 1800, lambda check: env)


def sanity_suite(name: str, long: bool) -> Count:
    """ansible-test sanity on the built artefact; pylint, which takes longer than all others, with the long tests."""
    count, log, junit = Count(), OUTPUT / f"{name}.log", OUTPUT / "sanity-junit"
    code = sanity.run([], log, junit, skipped=() if long else ("pylint",))
    for path in sorted(junit.glob("*.xml")) if junit.is_dir() else []:
        read_junit(path, count)
    if code and not count.failed:
        count.fail(f"ansible-test ended with {code}")
    if count.failed:
        show(log, name)
    return count


def molecule(name: str, long: bool) -> Count:
    """Each scenario of molecule/ is one test. They share a rehearsal cluster, stopped at the end.

    Those whose components may still be built come last.
    """
    names = sorted(path.parent.name for path in (ROOT / "molecule").glob("*/molecule.yml"))
    later = {scenario for scenario in names if needs_rest(ROOT / "molecule" / scenario)}
    scenarios = sorted(names, key=lambda scenario: scenario in later)
    env = quiet_environment(NO_COLOR="1", PY_COLORS="0", ANSIBLE_NOCOLOR="1", COLUMNS="160")
    commands = {scenario: ["molecule", "test", "-s", scenario] for scenario in scenarios}

    def own(scenario: str) -> dict[str, str]:
        return {**env, "MOLECULE_EPHEMERAL_DIRECTORY": str(OUTPUT / f"{name}-{scenario}")}

    def ready(scenario: str) -> None:
        if scenario in later:
            PROVIDED.wait()

    # There is one operator of a name in a cluster, so those that install the same one (NFD, Authorino) take turns.
    count = side_by_side(name, commands, 1800, own, in_turn=("nfd", "olm_operator", "serving_operators"), ready=ready)
    if not scenarios:
        count.fail("no scenario in molecule/")
    stop_log = OUTPUT / f"{name}-stop.log"
    if run_logged([str(VENV / "bin" / "ansible-playbook"), "molecule/shared/stop.yml"], stop_log, "stop", 120, env=env):
        count.fail("stopping the shared cluster")
        show(stop_log, "stopping the shared cluster", 40)
    return count


def read_coverage(path: Path) -> str:
    """Return a line on the coverage of the product, from coverage's JSON report; "" without one."""
    if not path.exists():
        return ""
    totals = json.loads(path.read_text(encoding="utf-8"))["totals"]
    return f"{totals['percent_covered']:.1f} % of {totals['num_statements']:,} statements in plugins/"


def unit(name: str, long: bool) -> Count:
    """Fast tests of single parts, on both cores; with coverage, which slows them, among the long tests."""
    report = OUTPUT / f"{name}-coverage.json"
    options = ["--cov", f"--cov-report=json:{report}"] if long else []
    count = pytest(name, ["tests/unit"], "-n", "2", *options, limit=3000)
    count.coverage = read_coverage(report)
    return count


def install(name: str, long: bool) -> Count:
    """Tests of the built archive, the clone and the README from a user's perspective."""
    return pytest(name, ["tests/smoke"], "--durations=10")


def integration(name: str, long: bool) -> Count:
    """Tests against real control planes: two workers with one each, because most of the time is waiting."""
    options = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--durations=25"]
    return pytest(name, ["tests/integration"], *options, limit=3600)


def long_tests(name: str, long: bool) -> Count:
    """Everything marked ``long``."""
    return pytest(name, ["tests"], "-m", "long", "--durations=20", limit=9 * 3600)


def add_codes(count: Count, version: str, codes: dict[str, int]) -> None:
    """Count each part of a version as one test, by its exit code."""
    for part, code in codes.items():
        if code:
            count.fail(f"{version} {part}")
        else:
            count.passed += 1


def other_versions(name: str, long: bool) -> Count:
    """The quick check of the oldest and the newest version of ansible-core, unless it is in .venv."""
    count = Count()
    found, lacking = quick_versions.environments()
    for one in found:
        add_codes(count, f"ansible-core {one.version}", quick_versions.check(one, OUTPUT))
    for reason in lacking:
        count.skip(reason)
    return count


def versions_suite(name: str, long: bool) -> Count:
    """The tests under each version of ansible-core; each part of a version is one test."""
    count = Count()
    for cell in versions.chosen([])[0]:
        if reason := cell.lacking():
            count.skip(reason if cell.version in reason else f"ansible-core {cell.version}: {reason}", len(cell.parts))
            continue
        try:
            add_codes(count, cell.version, versions.run_cell(cell, list(cell.parts)))
        except SystemExit as error:
            count.fail(f"{cell.version}: {error}")
    return count


def bench(name: str, long: bool) -> Count:
    """The benchmarks, which print their measurements."""
    count = pytest(name, ["tests/bench"], "-s", "-m", "", limit=2 * 3600)
    if not count.failed:
        say((OUTPUT / f"{name}.log").read_text(encoding="utf-8", errors="replace").rstrip())
    return count


Suite = Callable[[str, bool], Count]
FAST: dict[str, Suite] = {  # of those that run side by side the longest first
    "molecule": molecule,
    "sanity": sanity_suite,
    "lint": lint,
    "other-versions": other_versions,
    "unit": unit,
    "integration": integration,
    "install": install,
}
LONG: dict[str, Suite] = {"sanity": sanity_suite, "unit": unit, "long": long_tests, "versions": versions_suite}
BENCH: dict[str, Suite] = {"bench": bench}

#: These compute, or wait for what they don't measure: two of them run at a time. The others judge lateness and start
#: whole runs, and have the machine to themselves.
BESIDE = frozenset({"molecule", "sanity", "lint", "other-versions", "unit"})


def run_suite(name: str, suite: Suite, long: bool) -> tuple[Count, float]:
    """Run one suite; its errors are failures of that suite only."""
    say(f"==== {name}")
    began = time.monotonic()
    try:
        count = suite(name, long)
    except (SystemExit, Exception) as error:
        count = Count()
        count.fail(f"{type(error).__name__}: {error}")
        say(count.failures[0])
    seconds = time.monotonic() - began
    say(f"==== {name}: {count.passed} passed, {count.failed} failed, {count.skipped} not run, {seconds:.0f} s")
    return count, seconds


def run_all(suites: dict[str, Suite], long: bool) -> tuple[dict[str, tuple[Count, float]], float]:
    """Run the suites that tolerate concurrency two at a time, then the others one by one.

    Suites that need no prerequisites begin at once, the others when the first ones are there: on a new machine,
    providing them takes as long as these suites. Return the results and the seconds that all prerequisites took.
    """
    results: dict[str, tuple[Count, float]] = {}

    def one(name: str) -> None:
        results[name] = run_suite(name, suites[name], long)

    def provide_and_run(names: list[str]) -> float:
        began = time.monotonic()
        prepare(suites)

        def provide_rest() -> float:
            prepare_rest(suites)
            return time.monotonic() - began

        with ThreadPoolExecutor(max_workers=1) as pool:
            rest = pool.submit(provide_rest)
            for name in names:
                one(name)
        return rest.result()

    beside = [name for name in suites if name in BESIDE]
    with ThreadPoolExecutor(max_workers=2) as pool:
        provided = pool.submit(provide_and_run, [name for name in beside if needs_prerequisites(name)])
        futures = [pool.submit(one, name) for name in beside if not needs_prerequisites(name)]
    prepared = provided.result()
    for future in futures:
        future.result()
    for name in suites:
        if name not in beside:
            one(name)
    return {name: results[name] for name in suites}, prepared


def table(results: dict[str, tuple[Count, float]]) -> str:
    """The summary, one line per suite, followed by the reasons for tests that were not run."""
    lines = [f"{'suite':<14}{'passed':>8}{'failed':>8}{'not run':>9}{'time':>9}"]
    for name, (count, seconds) in results.items():
        lines.append(f"{name:<14}{count.passed:>8}{count.failed:>8}{count.skipped:>9}{seconds:>7.0f} s")
    lines += [f"coverage of {name}: {count.coverage}" for name, (count, _) in results.items() if count.coverage]
    for name, (count, _) in results.items():
        lines += [f"not run in {name}: {reason}" for reason in count.reasons]
    for name, (count, _) in results.items():
        lines += [f"FAILED in {name}: {what}" for what in count.failures]
    return "\n".join(lines)


def selected(arguments: list[str]) -> tuple[bool, dict[str, Suite]]:
    """Return whether long tests run, and the requested suites. A wrong argument ends the run."""
    parser = argparse.ArgumentParser(prog="tools/suites.py", description="Run the fast suites, or those named.")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--long", action="store_true", help=f"run the long suites: {', '.join(LONG)}")
    group.add_argument("--bench", action="store_true", help="run the measurements")
    parser.add_argument("names", nargs="*", metavar="suite", help=f"one of {', '.join(FAST)}; default: all")
    given = parser.parse_args(arguments)
    suites = BENCH if given.bench else LONG if given.long else FAST
    for name in given.names:
        if name not in suites:
            stop(f"there is no suite '{name}' here; there are {', '.join(suites)}")
    return given.long, {name: suite for name, suite in suites.items() if not given.names or name in given.names}


def interrupted(number: int, frame: object) -> None:
    """End running commands, so that nothing waits for them, and then this process."""
    end_all()
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Run, print the table, return the exit code."""
    long, suites = selected(arguments)
    began = time.monotonic()
    with locked("suites", "running tests"):
        shutil.rmtree(OUTPUT, ignore_errors=True)
        OUTPUT.mkdir(parents=True)
        results, prepared = run_all(suites, long)
    total = Count()
    for count, _ in results.values():
        total.add(count)
    say()
    say(table(results))
    say(f"prerequisites {prepared:.0f} s, all together {time.monotonic() - began:.0f} s")
    say()
    say(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


def start() -> None:
    """Run the suites as a run of leftovers.py, which ends their processes; exit with their code."""
    os.chdir(ROOT)
    leftovers.begin()
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, interrupted)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        say("interrupted: running tests were ended; their clusters are stopped within seconds")
        sys.exit(130)


if __name__ == "__main__":
    run(start)

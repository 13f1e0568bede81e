"""Measure the error rates of the methods on synthetic series; print them as a table.

usage: measure_error_rates.py [--suites N] [--otava] [--part NAME ...]     (make measure [SUITES=N] [OTAVA=1])

A whole measurement, with otava's column, goes into docs/statistics.md; it takes about an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import venv
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FOLDERS = (str(ROOT / "collections"), str(ROOT / "tests" / "support"), str(ROOT / "tests" / "measure"))
# Ansible's loader refuses a collection that is found twice, so what a test has added already is left out.
sys.path[:0] = [folder for folder in _FOLDERS if folder not in sys.path]
os.environ["OMP_NUM_THREADS"] = "1"  # one process a core is faster than threads in numpy

import history_rows
import numpy
from benchmark_table import put
from error_rate_rows import HEAD, OTAVA_SUITES, PARTS, Otava, Row, rows

PAGE = ROOT / "docs" / "statistics.md"
BEGIN, END = "<!-- error rates: written by make measure -->", "<!-- error rates: end -->"
OTAVA_VERSION = "0.8.0"
OTAVA_FOLDER = ROOT / ".cache" / f"otava-{OTAVA_VERSION}"
#: Suites of a row of the tables of histories.
HISTORY_SUITES = 200
#: Seconds until installing otava is given up.
INSTALL_LIMIT = 1200.0


def otava_python() -> str:
    """Return the Python of an environment with apache-otava, creating it when it is missing."""
    python, complete = OTAVA_FOLDER / "bin" / "python", OTAVA_FOLDER / "complete"
    if not complete.exists():
        print(f"installing apache-otava {OTAVA_VERSION} into {OTAVA_FOLDER.relative_to(ROOT)}", flush=True)
        venv.create(OTAVA_FOLDER, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", f"apache-otava=={OTAVA_VERSION}"]
        subprocess.run(command, check=True, timeout=INSTALL_LIMIT)
        complete.touch()
    return str(python)


def machine() -> str:
    """Return what the table was measured with."""
    return (
        f"Measured on {os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, numpy "
        f"{numpy.__version__}; seeds 1 to 9, one for each part. Column otava: apache-otava {OTAVA_VERSION} on the "
        f"first {OTAVA_SUITES} suites of a row, {5 * OTAVA_SUITES} of one KPI."
    )


def table(found: list[Row]) -> str:
    """Return the text between the marks of the page."""
    return "\n".join([machine(), "", HEAD, *(row.text() for row in found)])


def history_tables(count: int, python: str) -> list[tuple[str, Iterator[str]]]:
    """Return the tables of histories, of public series and of nights: heads and rows. count: suites of a row."""
    few = ("normal, 5 %", "long tails (log-t, 2.2)", "one run in ten is 50 % slower", "slow machine in 15 % of runs")
    return [
        (history_rows.HEAD, history_rows.histories(count, python)),
        (history_rows.HEAD, history_rows.histories(count, python, 1, few)),
        (history_rows.HEAD, history_rows.histories(count, python, 3, few)),
        (history_rows.PUBLIC_HEAD, history_rows.public(count, python)),
        (history_rows.NIGHTS_HEAD, history_rows.nights(max(1, count // 10))),
        (history_rows.PASSING_HEAD, history_rows.passing_nights(max(1, count // 2))),
    ]


def main(arguments: list[str]) -> int:
    """Print the table, and write it into the page if it is whole."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, help="suites of each row; default: as many as the page needs")
    parser.add_argument("--otava", action="store_true", help=f"measure apache-otava {OTAVA_VERSION} too (needs PyPI)")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS), help="default: all")
    given = parser.parse_args(arguments)
    if given.suites is not None and given.suites < 1:
        parser.error(f"--suites {given.suites}: at least one suite is needed")
    otava = Otava(otava_python() if given.otava else "")
    print(HEAD, flush=True)
    found: list[Row] = []
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for part in pool.map(rows, given.part, repeat(given.suites), repeat(otava)):
            found += part
            print("\n".join(row.text() for row in part), flush=True)
    if given.part == list(PARTS):
        for head, lines in history_tables(given.suites or HISTORY_SUITES, otava.python):
            print(f"\n{head}\n{'|---' * (head.count('|') - 1)}|", flush=True)
            for line in lines:
                print(line, flush=True)
    if given.suites is None and given.otava and given.part == list(PARTS):
        put(PAGE, BEGIN, END, table(found))
    else:
        print("\ndocs/statistics.md stays as it is: it needs all parts, all suites and otava", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The table of docs/benchmarks.md: measurements, targets, results and the machine."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import load_generator_health

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- load: written by make bench -->", "<!-- load: end -->"


@dataclass(frozen=True)
class Row:
    """One row. ``met``: whether the target was reached."""

    what: str
    target: str
    measured: str
    met: bool
    more: str = ""

    def line(self) -> str:
        """Return the row as Markdown."""
        return f"| {self.what} | {self.target} | {self.measured} | {'yes' if self.met else '**no**'} | {self.more} |"


@dataclass
class Table:
    """Rows in the order in which they were measured."""

    rows: list[Row] = field(default_factory=list)
    kubernetes: str = ""
    expected: int = 0  # rows of a whole run; only those go into the page
    stolen: load_generator_health.Reading = field(default_factory=load_generator_health.stolen_and_total_cpu_ticks)

    def add(self, what: str, target: str, measured: str, met: bool, more: str = "") -> None:
        """Add a row and show it."""
        now = load_generator_health.stolen_and_total_cpu_ticks()
        part, self.stolen = load_generator_health.cpu_steal_share(self.stolen, now), now
        if part is not None and part >= 0.01:
            more += f"; **the hypervisor took {part * 100:.0f} % of the processor time meanwhile**"
        self.rows.append(Row(what, target, measured, met, more))
        print(f"\n{self.rows[-1].line()}", flush=True)

    def text(self) -> str:
        """Return machine and rows as Markdown."""
        head = "| what | target | measured | met | how |\n|---|---|---|---|---|"
        return "\n".join([machine(self.kubernetes), "", head, *(row.line() for row in self.rows)])

    def finish(self) -> None:
        """Show the whole, and write it into the page when nothing is missing."""
        if not self.rows:
            return
        print(f"\n{self.text()}\n", flush=True)
        if len(self.rows) < self.expected:
            print(f"{len(self.rows)} of {self.expected} rows: docs/benchmarks.md stays as it is", flush=True)
            return
        put(PAGE, BEGIN, END, self.text())


def put(page: Path, begin: str, end: str, text: str) -> None:
    """Replace the text between two marks of a page."""
    held = page.read_text(encoding="utf-8")
    made = re.sub(f"(?s){re.escape(begin)}.*{re.escape(end)}", lambda _: f"{begin}\n\n{text}\n\n{end}", held)
    page.write_text(made, encoding="utf-8")
    print(f"docs/{page.name}: written", flush=True)


def machine(kubernetes: str) -> str:
    """Describe the machine in a sentence, without its name."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"))
    gib = int(memory.group(1)) / 1024**2 if memory else 0
    return (
        f"Machine: {os.cpu_count()} cores ({model.group(1).strip() if model else platform.machine()}), {gib:.0f} GiB, "
        f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, Kubernetes {kubernetes}; "
        f"control plane, KWOK and client share the cores."
    )

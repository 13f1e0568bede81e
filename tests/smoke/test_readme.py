"""What README.md tells a user to type works. Each bash block says above it how it is tested, or why it is not:

<!-- test: NAME, at most N minutes -->   or   <!-- test: none, REASON -->
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from common import ROOT

BLOCK = re.compile(r"(?:<!-- test: (?P<test>[^>]*?) -->\n)?```bash\n(?P<commands>.*?)```", re.DOTALL)
LIMIT = re.compile(r"(?P<name>[\w-]+), at most (?P<minutes>\d+) minutes?")


@dataclass(frozen=True)
class Block:
    """One block of commands."""

    test: str
    commands: str


BLOCKS = [Block(found["test"] or "", found["commands"]) for found in BLOCK.finditer((ROOT / "README.md").read_text())]
TESTED = [pytest.param(found, block, id=found["name"]) for block in BLOCKS if (found := LIMIT.fullmatch(block.test))]


def test_every_block_is_tested_or_says_why_not():
    unclear = [block.commands for block in BLOCKS if not LIMIT.fullmatch(block.test) and "none, " not in block.test]
    assert unclear == []
    assert len(TESTED) >= 2


@pytest.mark.parametrize(("test", "block"), TESTED)
def test_the_commands_of_a_block_work(test, block, root, start):
    done = start("bash", "-euo", "pipefail", "-c", block.commands, cwd=root, limit=60 * int(test["minutes"]))
    assert done.returncode == 0, done.stdout[-4000:]
    if test["name"] == "trial":
        check_screen(done.stdout)


def check_screen(text):
    """A passing trial fits on some screens: phases, progress, summary; its log has every task."""
    shown = text.partition("running: ")[2].splitlines()
    assert len(shown) < 100 and not any(line.startswith(("TASK [", "skipping:", "ok:")) for line in shown), text
    phases = ["cluster", "prepare", "test", "report", "cleanup", "release"]
    assert [line for line in shown if line.startswith("== ")] == [f"== {name}" for name in phases]
    assert f"  phases    {', '.join(phases)} passed" in shown, text
    (log,) = [line.split()[1] for line in shown if line.startswith("  log  ")]
    assert Path(log).read_text().count("TASK [") > 50


def test_links_into_the_repository_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []

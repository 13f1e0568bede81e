# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running tools/ci as a CI system does, and reading its output and its JUnit file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from playbook import ROOT, environment


@dataclass(frozen=True)
class Job:
    """A CI job that has ended: exit status, output, JUnit suite."""

    status: int
    output: str
    suite: ElementTree.Element

    @property
    def last(self) -> str:
        """The last line of the output."""
        return self.output.rstrip().splitlines()[-1]

    def cases(self, element: str) -> dict[str, str]:
        """Return name of the case -> message, of the cases with this element."""
        with_it = [(case.get("name", ""), case.find(element)) for case in self.suite.iter("testcase")]
        return {name: found.get("message", "") for name, found in with_it if found is not None}


def read(folder: Path, status: int, output: str) -> Job:
    """Read the JUnit file of a job that has ended."""
    assert (folder / "junit.xml").is_file(), output[-4000:]
    (suite,) = ElementTree.parse(folder / "junit.xml").getroot()
    return Job(status, output, suite)


def begin(
    folder: Path, playbook: str, *words: str, env: Mapping[str, str] | None = None, **settings: Any
) -> subprocess.Popen[bytes]:
    """Start a job from another folder than the clone. Its artefacts and the file log, its output, are in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = ROOT / "playbooks" / f"{playbook}.yml"
    given = ["-e", json.dumps(settings)] if settings else []
    command = [ROOT / "tools" / "ci", "--junit", folder / "junit.xml", path, *words, *given]
    with open(folder / "log", "wb") as log:
        return subprocess.Popen(
            [str(one) for one in command],
            cwd="/",
            env=environment(folder, env),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def ended(folder: Path, process: subprocess.Popen[bytes], timeout: float = 600) -> Job:
    """Wait for the end of a job and read it. timeout: in seconds."""
    status = process.wait(timeout)
    return read(folder, status, (folder / "log").read_text(encoding="utf-8"))


def run(folder: Path, playbook: str, *words: str, **settings: Any) -> Job:
    """Run a job to its end."""
    return ended(folder, begin(folder, playbook, *words, **settings))

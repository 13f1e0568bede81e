"""Check the oldest and the newest version of ansible-core, unless it is the one in .venv: quick_versions.py

Every plugin is imported, modules run in place, templates keep their types, and the main job is run. A version has a
small virtual environment in the user's cache folder, for all clones, made when it is first needed. versions.py runs
sanity and the main job under all versions, and the unit tests from 2.19 on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine_python
import setup
from common import ROOT, VENV, check_space, locked, quiet_environment, run, run_logged, say, seatrial_cache, tail

#: ansible-core -> the Pythons that it supports; the first that this machine has is used. Each is first once.
PYTHONS = {
    "2.16": ("3.11", "3.12"),
    "2.18": ("3.11", "3.12", "3.13"),
    "2.19": ("3.11", "3.12", "3.13"),
    "2.20": ("3.12", "3.13"),
    "2.21": ("3.13", "3.12"),
}

#: Those that the quick check runs. They differ most from one another.
QUICK = (min(PYTHONS), max(PYTHONS))

#: GB of a version's virtual environment. Seconds until a step is given up.
SIZE, LIMIT = 0.4, 1800.0

MAIN_JOB = ("playbooks/fine_tuning.yml", "-e", "preset=light")

#: Of test-requirements.txt, for the tests of modules and templates.
TESTING = ("pytest>", "hypothesis>")

IMPORTS = """
import importlib, pathlib, sys
sys.path.insert(0, "collections")
paths = sorted(path for path in pathlib.Path("plugins").rglob("*.py") if path.name != "__init__.py")
for path in paths:
    importlib.import_module("ansible_collections.perfscale.seatrial." + ".".join(path.with_suffix("").parts))
print(len(paths), "plugins are imported")
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with one version of ansible-core. python: path of the Python that makes it."""

    version: str
    python: str

    @property
    def folder(self) -> Path:
        """Where it is, for all clones of the user."""
        return seatrial_cache() / "ansible-core" / self.version

    @property
    def bin(self) -> Path:
        """Folder of its programs."""
        return self.folder / "venv" / "bin"

    def steps(self) -> dict[str, list[str]]:
        """Commands to run in the clone's folder, each of which must end with 0."""
        folder = "tests/unit/plugins/plugin_utils"
        tests = (f"{folder}/actions/test_module_actions.py", f"{folder}/compat")
        return {
            "imports": [str(self.bin / "python"), "-c", IMPORTS],
            "modules and templates": [str(self.bin / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
            "main job": [str(self.bin / "ansible-playbook"), *MAIN_JOB],
        }

    def _contents(self) -> dict[str, Any]:
        return {"python": self.python, "packages": packages(self.version), "bounds": tested_bounds()}

    def prepare(self, log: Path) -> str:
        """Complete it; return what failed, "" if nothing did. Only one process at a time may do this."""
        done, wanted = self.folder / "complete.json", self._contents()
        if done.exists() and json.loads(done.read_text(encoding="utf-8")) == wanted:
            return ""
        if problems := check_space([(f"ansible-core {self.version}", self.folder, SIZE)]):
            return "; ".join(problems)
        shutil.rmtree(self.folder, ignore_errors=True)
        bounds = ("-c", str(ROOT / "constraints.txt"))
        pip = [str(self.bin / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
        for command, limit in (
            ([self.python, "-m", "venv", str(self.folder / "venv")], setup.VENV_LIMIT),
            ([*pip, "--no-compile", "--progress-bar", "off", *bounds, *wanted["packages"]], setup.PIP_LIMIT),
        ):
            if code := run_logged(command, log, f"ansible-core {self.version}", limit):
                return f"{Path(command[0]).name} {' '.join(command[1:4])} ended with {code}:\n{tail(log, 8)}"
        done.write_text(json.dumps(wanted), encoding="utf-8")
        return ""


def packages(version: str) -> list[str]:
    """The packages of an environment: what the collection needs, with this ansible-core, and for its test."""
    lines = [
        line.partition("#")[0].strip()
        for name in ("requirements.txt", "test-requirements.txt")
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
        if name == "requirements.txt" or line.startswith(TESTING)
    ]
    return [f"ansible-core=={version}.*", *filter(None, lines)]


def tested_bounds() -> str:
    """The content of constraints.txt."""
    return (ROOT / "constraints.txt").read_text(encoding="utf-8")


def installed() -> str:
    """The version of ansible-core in .venv, such as 2.19; "" without one."""
    found = next(VENV.glob("lib/python*/site-packages/ansible/release.py"), None)
    said = re.search(r"__version__ = '(\d+\.\d+)", found.read_text(encoding="utf-8")) if found else None
    return said[1] if said else ""


def environments(versions: Sequence[str] = QUICK) -> tuple[list[Environment], list[str]]:
    """Those of the other versions, and why one can't be made."""
    found, lacking = [], []
    for version in versions:
        if version == installed():
            continue
        _name, path = machine_python.find(PYTHONS[version])
        if path:
            found.append(Environment(version, path))
        else:
            lacking.append(
                f"ansible-core {version}: this machine has no Python {' or '.join(PYTHONS[version])} (make versions)"
            )
    return found, lacking


def check(one: Environment, logs: Path) -> dict[str, int]:
    """Make the environment if it is missing, run each step; return exit codes. What failed is in ``logs``."""
    log, codes = logs / f"ansible-core-{one.version}-setup.log", {}
    with locked(f"ansible-core-{one.version}", f"checking ansible-core {one.version}", one.folder.parent):
        if failed := one.prepare(log):
            say(f"  ansible-core {one.version}: no environment: {failed}")
            return {"environment": 1}
        path = f"{one.bin}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        env = quiet_environment(PATH=path, ARTIFACT_DIR=str(logs / f"ansible-core-{one.version}-runs"))
        for step, command in one.steps().items():
            log = logs / f"ansible-core-{one.version}-{step.replace(' ', '-')}.log"
            began = time.monotonic()
            codes[step] = run_logged(command, log, f"ansible-core {one.version} {step}", LIMIT, env=env)
            result = "ok" if codes[step] == 0 else f"FAILED\n{tail(log, 60)}"
            say(f"  ansible-core {one.version} {step}: {result} ({time.monotonic() - began:.1f} s)")
    return codes


def main() -> None:
    """Check all; exit with 1 if a step failed."""
    found, lacking = environments()
    with tempfile.TemporaryDirectory(prefix="seatrial-quick-versions-") as logs:
        codes = [code for one in found for code in check(one, Path(logs)).values()]
    for reason in lacking:
        say(f"not run: {reason}")
    sys.exit(any(codes))


if __name__ == "__main__":
    run(main)

"""Static checks of the tree: lint_checks.py CHECK ... runs these checks, one after the other.

`make lint` runs all checks of the table below. The hooks of .pre-commit-config.yaml run the quick ones on the files of
a commit.
"""

from __future__ import annotations

import subprocess
import sys

from common import CACHE, ROOT, VENV, quiet_environment, run, seatrial_cache, stop

#: What mypy knows of files that have not changed since a check in any clone.
MYPY = ["mypy", "--cache-dir", str(seatrial_cache() / "mypy")]
#: Name of a check -> its command in the virtual environment. The slow ones first: `make lint` runs two at a time.
CHECKS: dict[str, list[str]] = {
    "ansible-lint": ["python", "tools/lint_ansible.py"],
    "plugin-documentation": ["python", "tools/lint_plugin_docs.py"],
    "mypy": MYPY,
    "mypy-tests": [*MYPY[:-1], f"{MYPY[-1]}-tests", "--config-file", "tests/mypy.ini"],
    "yamllint": ["yamllint", "--strict", "."],
    "ruff-check": ["ruff", "check", "."],
    "ruff-format": ["ruff", "format", "--check", "--diff", "."],
    "changelog-fragments": ["antsibull-changelog", "lint"],
    "generated-files": ["python", "tools/generate.py", "--check"],
    "ci-examples": ["python", "tools/lint_ci_examples.py"],
    "leak-scan": ["python", "tools/leak_scan.py"],
}


def environment() -> dict[str, str]:
    """Return the environment of every check."""
    return quiet_environment(PYTHONDONTWRITEBYTECODE="1", NO_COLOR="1", ANSIBLE_HOME=str(CACHE / "ansible"))


def main(names: list[str]) -> int:
    """Run checks; return the number of those that failed. An unknown name ends the run before the first one."""
    for name in names:
        if name not in CHECKS:
            stop(f"there is no check '{name}'; there are {', '.join(CHECKS)}")
    commands = [[str(VENV / "bin" / CHECKS[name][0]), *CHECKS[name][1:]] for name in names]
    return sum(subprocess.run(command, cwd=ROOT, env=environment()).returncode != 0 for command in commands)


if __name__ == "__main__":
    run(lambda: sys.exit(main(sys.argv[1:])))

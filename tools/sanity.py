"""Run ansible-test sanity on the built artefact: sanity.py [--programs FOLDER] [--test TEST ...] [TEST | PATH ...]

ansible-test makes a virtual environment for some of its tests and fetches a pip bootstrap script from a host of its
own. Where only a package registry is reached that fails, so a stand-in is put where the script is cached: it runs pip
from pip's own wheel. All of it lies below the user's cache folder; the home folder is not touched.

Each sanity test leaves a JUnit file; ``junit`` returns the folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from artefact import build, install
from common import ROOT, VENV, quiet_environment, run_logged, seatrial_cache, stop, tail

#: Where ansible-test is, unless another folder is named.
PROGRAMS = VENV / "bin"

#: Seconds for all of ansible-test, its first set-up included.
LIMIT = 2400.0

STAND_IN = '''"""Stand-in for get-pip: installs pip from its wheel beside this file, without another download."""
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
wheel = os.path.join(here, {wheel!r})
sys.path.insert(0, wheel)
from pip._internal.cli.main import main

sys.exit(main(["install", "--no-index", "--find-links", here, "--disable-pip-version-check", {requirement!r}]))
'''


def pip_version(programs: Path = PROGRAMS) -> str:
    """The version of pip that the ansible-test in ``programs`` installs in its environments."""
    source = next(programs.parent.glob("lib/python*/site-packages/ansible_test/_internal/python_requirements.py"))
    found = re.search(r"pip='([0-9.]+)'", source.read_text(encoding="utf-8"))
    if not found:
        stop(f"{source} contains no pip version any more: adapt tools/sanity.py")
    return found[1]


def bootstrap(home: Path, programs: Path = PROGRAMS) -> None:
    """Provide our bootstrap script where ansible-test expects one, unless it exists."""
    version = pip_version(programs)
    cache = home / ".ansible" / "test" / "cache"
    script = cache / f"get_pip_{version.replace('.', '_')}.py"
    if script.exists():
        return
    cache.mkdir(parents=True, exist_ok=True)
    command = [str(VENV / "bin" / "pip"), "download", "--no-deps", "--quiet", "-d", str(cache), f"pip=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
    if done.returncode:
        stop(
            f"pip {version}, which ansible-test needs, can't be fetched: {(done.stderr or done.stdout).strip()[-400:]}"
        )
    wheel = next(cache.glob(f"pip-{version}-*.whl")).name
    script.write_text(STAND_IN.format(wheel=wheel, requirement=f"pip=={version}"), encoding="utf-8")


def environment(programs: Path) -> dict[str, str]:
    """The home folder is redirected; pip keeps the user's own download cache."""
    home = seatrial_cache() / "ansible-test"
    home.mkdir(parents=True, exist_ok=True)
    bootstrap(home, programs)
    user_cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    pip_cache = os.environ.get("PIP_CACHE_DIR") or f"{user_cache}/pip"
    return quiet_environment(HOME=str(home), PATH=path, PIP_CACHE_DIR=pip_cache)


def run(words: Sequence[str], log: Path, junit: Path, programs: Path = PROGRAMS, skipped: Sequence[str] = ()) -> int:
    """Build, install, test; JUnit files go to ``junit``. Returns ansible-test's exit code.

    words: tests and paths (plugins/modules/), all if there are none. programs: the folder of ansible-test.
    skipped: tests that are not run.
    """
    tests, paths = [one for one in words if "/" not in one], [one for one in words if "/" in one]
    shutil.rmtree(junit, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="seatrial-sanity-") as folder:
        place = Path(folder)
        collection = install(build(place), place)
        python = next((programs.parent / "lib").glob("python3*")).name.removeprefix("python")
        command = [str(programs / "ansible-test"), "sanity", "--python", python, "--junit", "--color", "no"]
        for name in tests:
            command += ["--test", name]
        for name in skipped:
            command += ["--skip-test", name]
        command += paths
        code = run_logged(command, log, "ansible-test sanity", LIMIT, env=environment(programs), cwd=collection)
        results = collection / "tests" / "output" / "junit"
        if results.is_dir():
            shutil.copytree(results, junit)
        return code


def selected(arguments: list[str]) -> tuple[list[str], Path]:
    """Return the tests and paths that the arguments name, and where ansible-test is.

    An unknown option or path ends the tool.
    """
    parser = argparse.ArgumentParser(
        prog="tools/sanity.py", description="Run ansible-test sanity on the built artefact."
    )
    parser.add_argument("--test", action="append", default=[], metavar="TEST", help="a test, as for ansible-test")
    parser.add_argument("words", nargs="*", metavar="TEST | PATH", help="tests, and paths with a slash; default: all")
    parser.add_argument("--programs", type=Path, default=PROGRAMS, help="folder of ansible-test, by default of .venv")
    given = parser.parse_args(arguments)
    for word in given.words:
        if "/" in word and not (ROOT / word).exists():
            parser.error(f"there is no {word} in the clone")
    return [*given.test, *given.words], given.programs


def main(arguments: list[str]) -> None:
    """Run ansible-test and show its output."""
    words, programs = selected(arguments)
    with tempfile.TemporaryDirectory(prefix="seatrial-sanity-log-") as folder:
        log = Path(folder) / "log"
        code = run(words, log, Path(folder) / "junit", programs)
        print(tail(log, 400))
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])

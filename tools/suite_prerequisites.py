"""Prerequisites of the tests, provided beforehand: programs of the rehearsal cluster, servers, packages."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Collection
from pathlib import Path

import debian_packages
from common import ROOT, VENV, find_collection, quiet_environment, run_logged, say, seatrial_cache, tail

OUTPUT = ROOT / "tests" / "output"
FOLDER = ROOT / "roles" / "rehearsal" / "files" / "components"

#: Set when the components that only some tests start are provided, and also if that failed.
PROVIDED = threading.Event()

#: Lines of a failed command's output that are shown.
SHOWN = 200

#: Suites that start rehearsal clusters.
CLUSTERED = frozenset({"integration", "molecule", "install", "long", "bench", "versions", "other-versions"})

#: Suites that talk to an S3 server, OpenSearch and Prometheus.
SERVED = frozenset({"integration", "long"})

#: Components of the rehearsal cluster that most tests start, besides those that always are there. On a new machine they
#: are built before the first test, so that no test's time is spent on it.
FIRST = ("training-operator", "trainer")

#: Components that some tests start: built while the others run. What only long tests need is built by them.
COMPONENTS = (
    "olm",
    "kueue",
    "gangs",
    "kuberay",
    "model-server",
    "leader-worker-set",
    "agent-sandbox",
)

#: The components of a real node. On a new machine they take 3 to 6 minutes more.
NODE = ("node", "registry")


def needs_prerequisites(suite: str) -> bool:
    """Return whether prepare() provides something for a suite."""
    return suite in CLUSTERED | SERVED


def needs_rest(scenario: Path) -> bool:
    """Return whether a scenario of molecule adds components to the shared cluster that prepare() does not provide."""
    path = scenario / "prepare.yml"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.findall(r"^ +rehearsal_components: \[(.*)\]$", text, re.MULTILINE)
    return not {name.strip() for names in found for name in names.split(",")} <= set(FIRST)


def real_node_lacks() -> str:
    """Return why this machine can't run a real node with limits, "" if it can."""
    find_collection()
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import component_selection
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
        unpack_packages as packages,
    )

    if os.geteuid() != 0 or not packages.is_apt_available():
        return "a real node with limits needs root, and its image is made of Debian packages by apt"
    try:
        component_selection.check_real_node_permitted([NODE])
    except InputError as error:
        return str(error)
    return ""


def show(log: Path, title: str, lines: int = SHOWN) -> None:
    """Show the end of a failed command's output."""
    say(f"---- {title}: the end of {log.relative_to(ROOT)}")
    say(tail(log, lines))
    say(f"---- end of {title}")


def missing(names: Collection[str]) -> bool:
    """Return whether programs of components that always are there, or of those in ``names``, have to be built."""
    find_collection()
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
        cached_and_user_programs,
        component_selection,
    )

    chosen = component_selection.select_required_components(component_selection.load_all_components(FOLDER), names)
    return bool(
        cached_and_user_programs.components_without_programs(
            chosen, cached_and_user_programs.ProgramSources(seatrial_cache())
        )
    )


def build(components: Collection[str], beside_tests: bool) -> None:
    """Provide programs of the rehearsal cluster. beside_tests: programs are tested meanwhile and go first."""
    log, wanted = OUTPUT / "binaries.log", json.dumps({"rehearsal_components": list(components)})
    command = [str(VENV / "bin" / "ansible-playbook"), "playbooks/rehearsal.yml", "--tags", "binaries", "-e", wanted]
    if beside_tests:
        command = ["nice", "-n", "5", *command]
    if run_logged(command, log, "programs of the rehearsal cluster", 3600, env=quiet_environment()):
        show(log, "programs of the rehearsal cluster", 40)


def prepare(suites: Collection[str]) -> None:
    """Provide what most tests of the suites need beyond Python packages; prepare_rest() provides the rest.

    Both report what is unavailable. Its tests are not run.
    """
    if not CLUSTERED.intersection(suites):
        return
    debian_packages.ensure_chromium(OUTPUT / "packages.log")
    debian_packages.ensure_sshd(OUTPUT / "packages.log")
    if missing(FIRST):
        build(FIRST, beside_tests=False)


def prepare_rest(suites: Collection[str]) -> None:
    """Provide what only some tests of the suites need."""
    try:
        if CLUSTERED.intersection(suites):
            build([*FIRST, *COMPONENTS, *(() if real_node_lacks() else NODE)], beside_tests=True)
    finally:
        PROVIDED.set()
    if SERVED.intersection(suites):
        # In a process of its own: it needs the virtual environment.
        command = [str(VENV / "bin" / "python"), "tools/fetch_test_servers.py"]
        log = OUTPUT / "services.log"
        if run_logged(command, log, "servers for the tests", 3600, env=quiet_environment()) == 0:
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            say(said) if said else None
        else:
            show(log, "servers for the tests", 40)

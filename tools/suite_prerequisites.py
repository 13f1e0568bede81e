"""Prerequisites of the tests, provided beforehand: programs of the rehearsal cluster, servers, packages."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path

import debian_packages
from common import ROOT, VENV, find_collection, quiet_environment, run_logged, say, tail

OUTPUT = ROOT / "tests" / "output"

#: Lines of a failed command's output that are shown.
SHOWN = 200

#: Suites that start rehearsal clusters.
CLUSTERED = frozenset({"integration", "molecule", "install", "long", "bench", "versions"})

#: Suites that talk to an S3 server, OpenSearch and Prometheus.
SERVED = frozenset({"integration", "long"})

#: Components of the rehearsal cluster that the suites start, besides those that always are there. On a new machine they
#: are built before the first test, so that no test's time is spent on it. What only long tests need is built by them.
COMPONENTS = ("training-operator", "olm", "kueue", "gangs", "appwrapper", "kuberay")

#: The components of a real node. On a new machine they take 3 to 6 minutes more.
NODE = ("node", "registry")


def needs_prerequisites(suite: str) -> bool:
    """Return whether prepare() provides something for a suite."""
    return suite in CLUSTERED | SERVED


def real_node_lacks() -> str:
    """Return why this machine can't run a real node with limits, "" if it can."""
    find_collection()
    from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
    from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import debian_packages as packages
    from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal import real_node

    if os.geteuid() != 0 or not packages.available():
        return "a real node with limits needs root, and its image is made of Debian packages by apt"
    try:
        real_node.check([NODE])
    except InputError as error:
        return str(error)
    return ""


def show(log: Path, title: str, lines: int = SHOWN) -> None:
    """Show the end of a failed command's output."""
    say(f"---- {title}: the end of {log.relative_to(ROOT)}")
    say(tail(log, lines))
    say(f"---- end of {title}")


def prepare(suites: Collection[str]) -> None:
    """Provide what the suites need beyond Python packages; report what is unavailable. Its tests are not run."""
    if CLUSTERED.intersection(suites):
        debian_packages.ensure_chromium(OUTPUT / "packages.log")
        debian_packages.ensure_sshd(OUTPUT / "packages.log")
        components = COMPONENTS if real_node_lacks() else (*COMPONENTS, *NODE)
        log, wanted = OUTPUT / "binaries.log", json.dumps({"rehearsal_components": components})
        command = [str(VENV / "bin" / "ansible-playbook"), "playbooks/rehearsal.yml", "--tags", "binaries"]
        if run_logged(
            [*command, "-e", wanted], log, "programs of the rehearsal cluster", 3600, env=quiet_environment()
        ):
            show(log, "programs of the rehearsal cluster", 40)
    if SERVED.intersection(suites):
        # In a process of its own: it needs the virtual environment.
        command = [str(VENV / "bin" / "python"), "tools/fetch_test_servers.py"]
        log = OUTPUT / "services.log"
        if run_logged(command, log, "servers for the tests", 3600, env=quiet_environment()) == 0:
            said = log.read_text(encoding="utf-8", errors="replace").strip()
            say(said) if said else None
        else:
            show(log, "servers for the tests", 40)

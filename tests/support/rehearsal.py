"""Rehearsal clusters for tests: programs from the user's cache, data in the folder of the test run."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import Client

ROOT = Path(__file__).parents[2]
COMPONENTS = ROOT / "roles" / "rehearsal" / "files" / "components"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seatrial"


def options(data_dir: Path, name: str = "tests", **more: Any) -> cluster_lifecycle.RehearsalOptions:
    """Options of an instance in ``data_dir``."""
    more.setdefault("components", ["training-operator"])
    return cluster_lifecycle.RehearsalOptions(
        name=name, data_dir=str(data_dir), cache_dir=str(CACHE), components_dir=str(COMPONENTS), **more
    )


#: Calls create_or_repair_instance(options) in a separate process, which can then be killed.
DRIVER = """
import sys
sys.path[:0] = {path!r}
import rehearsal as support
from pathlib import Path
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import cluster_lifecycle
print("go", flush=True)
options = support.options(Path({folder!r}), {name!r}, components={components!r})
print(cluster_lifecycle.create_or_repair_instance(options, support.quiet)["changed"], flush=True)
"""


def drive(options: cluster_lifecycle.RehearsalOptions) -> subprocess.Popen[str]:
    """Start an instance in a process that can be killed. It prints "go" when it begins."""
    path = [one for one in sys.path if one]
    code = DRIVER.format(path=path, folder=options.data_dir, name=options.name, components=options.components)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)


def quiet(_line: str) -> None:
    """Discard a message."""


@dataclass(frozen=True)
class Rehearsal:
    """A running cluster. ``info``: the result of module rehearsal_cluster."""

    kubeconfig: str
    info: dict[str, Any]

    def client(self) -> Client:
        """Return a new client for the caller."""
        return Client.from_kubeconfig(self.kubeconfig)

    @property
    def cluster(self) -> dict[str, Any]:
        """Return the record that role cluster would keep."""
        return dict(self.info["cluster"])

"""What every test has: files are validated as they are written, and nothing of the user's environment leaks in.

``pythonpath`` in pyproject.toml makes ansible_collections.perfscale.seatrial and tests/support importable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import leftovers
import pytest
from hypothesis import settings

# A deadline for one example says something about the machine, not about the code.
settings.register_profile("seatrial", deadline=None)
settings.load_profile("seatrial")

ANSIBLE: list[list[Any]] = []  # what Ansible's loader puts where imports are looked up
KEPT = ("SEATRIAL_VALIDATE", "SEATRIAL_KILLS", "SEATRIAL_SIGNALS", "SEATRIAL_FIRST_SEED", leftovers.MARK)
# A worker of xdist inherits these folders and then gets them again; Ansible's loader refuses a collection found twice.
sys.path[:] = dict.fromkeys(sys.path)
# Set at import, not in a fixture: fixtures of wider scope and child processes must see it too.
os.environ["SEATRIAL_VALIDATE"] = "1"
for name in ("KUBECONFIG", "ARTIFACT_DIR", "ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH"):
    os.environ.pop(name, None)
for name in [name for name in os.environ if name.startswith("SEATRIAL_") and name not in KEPT]:
    os.environ.pop(name)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have what this run starts end with it, however it ends. Workers are part of the run of their main process."""
    if not hasattr(session.config, "workerinput"):
        leftovers.begin()


@pytest.fixture(scope="module")
def ansible_plugins() -> Iterator[None]:
    """Ansible's lookups and filters, and ours. They go afterwards, because Ansible's loader imports us meanwhile."""
    import ansible_collections.perfscale.seatrial as seatrial
    from ansible.plugins.loader import init_plugin_loader
    from ansible_collections.perfscale.seatrial.plugins import lookup

    for name, package in list(sys.modules.items()):
        if f"{name}.".startswith("ansible_collections.") and hasattr(package, "__path__"):
            package.__path__ = list(dict.fromkeys(package.__path__))  # files that are collected may add folders again
    before = sys.meta_path[:], sys.path_hooks[:]
    if not ANSIBLE:
        init_plugin_loader()
        ANSIBLE.extend((sys.meta_path[:], sys.path_hooks[:]))
    sys.meta_path[:], sys.path_hooks[:] = ANSIBLE
    # Ansible's loader sets these when it imports a collection; pytest has imported ours before.
    vars(seatrial).setdefault("_collection_meta", {})
    lookup.__file__ = f"{next(iter(lookup.__path__))}/__init__.py"
    yield
    sys.meta_path[:], sys.path_hooks[:] = before
    sys.path_importer_cache.clear()

"""What every test has: files are validated as they are written, and nothing of the user's environment leaks in.

``pythonpath`` in pyproject.toml makes ansible_collections.perfscale.seatrial and tests/support importable.
"""

from __future__ import annotations

import os

import pytest
import testrun
from hypothesis import settings

# A deadline for one example says something about the machine, not about the code.
settings.register_profile("seatrial", deadline=None)
settings.load_profile("seatrial")

KEPT = ("SEATRIAL_VALIDATE", testrun.MARK)
# Set at import, not in a fixture: fixtures of wider scope and child processes must see it too.
os.environ["SEATRIAL_VALIDATE"] = "1"
for name in ("KUBECONFIG", "ARTIFACT_DIR", "ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH"):
    os.environ.pop(name, None)
for name in [name for name in os.environ if name.startswith("SEATRIAL_") and name not in KEPT]:
    os.environ.pop(name)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have what this run starts end with it, however it ends. Workers are part of the run of their main process."""
    if not hasattr(session.config, "workerinput"):
        testrun.begin()


@pytest.fixture(scope="session")
def ansible_plugins() -> None:
    """Ansible's lookups and filters, once. Not while tests are collected: from then on Ansible's loader imports us."""
    from ansible.plugins.loader import init_plugin_loader

    init_plugin_loader()

"""What every test has: files are validated as they are written, and nothing of the user's environment leaks in.

``pythonpath`` in pyproject.toml makes ansible_collections.perfscale.seatrial and tests/support importable.
"""

from __future__ import annotations

import os

from hypothesis import settings

# A deadline for one example says something about the machine, not about the code.
settings.register_profile("seatrial", deadline=None)
settings.load_profile("seatrial")

# Set at import, not in a fixture: fixtures of wider scope and child processes must see it too.
os.environ["SEATRIAL_VALIDATE"] = "1"
for name in ("KUBECONFIG", "ARTIFACT_DIR", "ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH"):
    os.environ.pop(name, None)
for name in [name for name in os.environ if name.startswith("SEATRIAL_") and name != "SEATRIAL_VALIDATE"]:
    os.environ.pop(name)

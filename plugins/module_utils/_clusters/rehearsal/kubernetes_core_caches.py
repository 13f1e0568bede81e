# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files in which modules of kubernetes.core keep what an API server serves.

Each instance has another port, so nothing else would remove them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from . import instance_processes, process_launch_plan


def _cached_discoveries(server: str) -> list[Path]:
    """Return the files in which modules of kubernetes.core keep what an API server serves, whoever runs them here."""
    names = {server, f"{server}-{os.getuid()}", f"{server}-{os.environ.get('USERNAME')}"}
    with suppress(OSError):  # no terminal
        names.add(f"{server}-{os.getlogin()}")
    keys = (hashlib.sha256(name.encode()).hexdigest() for name in names)
    return [Path(tempfile.gettempdir()) / f"k8srcp-{key}.json" for key in keys]


def remove_discovery_cache(used: dict[str, int]) -> None:
    """Remove what was kept of the API server of an instance. used: the ports of the instance, by name."""
    if process_launch_plan.API_PORT in used:
        for path in _cached_discoveries(f"https://{instance_processes.LOOPBACK}:{used[process_launch_plan.API_PORT]}"):
            with suppress(OSError):
                path.unlink()

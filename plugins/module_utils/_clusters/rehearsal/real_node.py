# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a real node takes of the machine, checked before minutes are spent on its programs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    InputError,
    ProcessError,
    WaitTimeout,
)

from . import debian_packages

#: The component that is a real node, and the name of its node.
COMPONENT, NODE = "node", "real-0"

#: Seconds for a program that does nothing in new namespaces.
PATIENCE = 30.0


def lacks(components: Iterable[str]) -> str:
    """Return what a real node lacks without root; an empty text if there is none or it lacks nothing."""
    if COMPONENT not in components or os.geteuid() == 0:
        return ""
    without = "without limits of CPU and memory, and all as one user"
    return f"not root: the pods of node {NODE} run in a user namespace, {without}"


def check(components: Iterable[str]) -> None:
    """Raise InputError if a real node is among ``components`` and this machine permits none."""
    if COMPONENT not in components:
        return
    spaces = ["--mount", "--pid", "--net", "--uts", "--ipc", "--fork"]
    who = "root"
    if os.geteuid() != 0:
        spaces = ["--user", "--map-root-user", *spaces]
        who = f"user {os.geteuid()}"
    try:
        debian_packages.run(["unshare", *spaces, "true"], Path("/"), PATIENCE)
    except (ProcessError, WaitTimeout) as error:
        raise InputError(
            f"rehearsal_nodes_real: this machine permits {who} no new namespaces, which a node consists of ({error})"
            ". Run it as root outside of a container, or in a privileged one, or without a real node"
        ) from error

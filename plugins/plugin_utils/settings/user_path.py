# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths given by the user: relative to the working directory of ansible-playbook.

Ansible runs a module in the playbook's folder. A relative path must therefore become absolute on the controller, where
an action still has the caller's working directory.
"""

from __future__ import annotations

import os
import re
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.kubeconfig import IN_CLUSTER
from ansible_collections.perfscale.seatrial.plugins.module_utils._results.judge.collect_history import OPENSEARCH

#: Words that a setting accepts instead of a path.
WORDS = (IN_CLUSTER, OPENSEARCH)
_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")


def absolute(path: str) -> str:
    """Return ``path`` as an absolute path. An empty text, an address (``s3://…``) and WORDS stay."""
    if not path or path in WORDS or _ADDRESS.match(path):
        return path
    return os.path.abspath(os.path.expanduser(os.path.expandvars(path)))


def absolute_all(value: Any) -> Any:
    """Return a text, or each text of a list or dictionary, as an absolute path; anything else as it is."""
    if isinstance(value, str):
        return absolute(value)
    if isinstance(value, (list, tuple)):
        return [absolute_all(one) for one in value]
    if isinstance(value, dict):
        return {key: absolute_all(one) for key, one in value.items()}
    return value

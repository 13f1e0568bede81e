# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder for temporary files of modules on this machine.

If Ansible can't create a folder there, it treats the host as unreachable and ends the play. For localhost the run would
end without reporting what it holds. The folder is therefore checked before anything is acquired.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError


def configured(action: ActionBase) -> tuple[str, str]:
    """Return the folder for the modules of this action, and why it can't be used.

    The reason is empty if it can be used; both are empty for another machine or user, which are not checked.
    """
    if action._connection.transport != "local" or action._connection.become:
        return "", ""
    folder = os.path.expanduser(action.get_shell_option("remote_tmp", default="~/.ansible/tmp"))
    return folder, why_unusable(folder)


def replacement(action: ActionBase, extra: Mapping[str, Any]) -> str | None:
    """Return the folder for ansible_remote_tmp if the configured one can't be used, else None.

    extra: variables of ``-e``. Raises InputError if the folder is one of them.
    """
    asked, why = configured(action)
    if why and "ansible_remote_tmp" in extra:
        raise InputError(f"-e ansible_remote_tmp={asked}: no folder can be created there: {why}")
    if why:
        Display().display(f"No folder can be created in {asked} ({why}): modules use {constants.DEFAULT_LOCAL_TMP}")
    return str(constants.DEFAULT_LOCAL_TMP) if why else None


def why_unusable(folder: str) -> str:
    """Return why no folder can be created in ``folder``, an empty string if one can."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)

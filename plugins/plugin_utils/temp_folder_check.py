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

from ansible.plugins.action import ActionBase


def configured(action: ActionBase) -> tuple[str, str]:
    """Return the folder for the modules of this action, and why it can't be used.

    The reason is empty if it can be used; both are empty for another machine or user, which are not checked.
    """
    if action._connection.transport != "local" or action._connection.become:
        return "", ""
    folder = os.path.expanduser(action.get_shell_option("remote_tmp", default="~/.ansible/tmp"))
    return folder, why_unusable(folder)


def why_unusable(folder: str) -> str:
    """Return why no folder can be created in ``folder``, an empty string if one can."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)

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


def why_unusable(folder: str) -> str:
    """Return why no folder can be created in ``folder``, an empty string if one can."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where modules on this machine keep what they need for a moment.

Ansible calls a host unreachable when it can't make a folder there, and leaves the play: for localhost that is the end
of a run, without a word of what it holds. So it is tried before anything is taken.
"""

from __future__ import annotations

import os
import tempfile


def why_unusable(folder: str) -> str:
    """Return why no folder can be made in ``folder``, empty when one can."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or str(error)

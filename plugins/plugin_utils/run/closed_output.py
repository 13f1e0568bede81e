# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run whose output nobody reads any more (``| head``, a pager that was left) goes on to its end.

An error of the output ends the thread by which Ansible receives results; ansible-playbook would then wait forever.
"""

from __future__ import annotations

import functools
import os
from typing import Any


def survive(display: Any) -> None:
    """Make ``display``, Ansible's, discard what follows once the reader of stdout or stderr is gone."""
    show = display.display

    @functools.wraps(show)
    def guarded(*args: Any, **more: Any) -> None:
        try:
            show(*args, **more)
        except BrokenPipeError:
            _discard(2 if more.get("stderr") else 1)

    display.display = guarded


def _discard(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A load that runs elsewhere, over a connection that may break while the load goes on: asked again, its files fetched.

What is the same whether it runs on another host or in a pod.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import AccessError

#: Seconds between two attempts to reach where it runs.
_PAUSE = 2.0


@dataclass(frozen=True)
class ConnectionRetry:
    """The connection to where a load runs.

    who: what is at its other end, in words. run: id of the run. patience: seconds that it may stay lost. lost: tells
    an error of the connection from an answer. again: called before another attempt.
    """

    who: str
    run: str
    patience: float
    say: Callable[[str], None]
    lost: Callable[[Exception], bool]
    again: Callable[[], None] = lambda: None

    def call(self, what: str, do: Callable[[], Any]) -> Any:
        """Do it, again and again while the other end can't be reached; ``what`` names it, as in "following it".

        Raises AccessError when that lasts too long, and what ``do`` raises otherwise.
        """
        began: float | None = None
        while True:
            try:
                return do()
            except Exception as error:
                if not self.lost(error):
                    raise
                now = time.monotonic()
                if began is None:
                    began = now
                    self.say(f"no connection while {what}: the load goes on there, trying again ({error})")
                if now - began > self.patience:
                    raise AccessError(
                        f"{self.who} could not be reached again for {now - began:.0f} s while {what}. The load goes on "
                        f"there; the same task finds it again by its run id ({self.run}): {error}"
                    ) from error
                time.sleep(_PAUSE)
                self.again()

    def fetch(self, fetch: Callable[[Path], Any], here: Path, append: bool = False) -> None:
        """Have ``fetch`` write a file beside ``here``; it takes the place of what is there, or is appended to it."""
        aside = here.with_name(f".{here.name}.fetched")
        self.call(f"fetching {here.name}", lambda: fetch(aside))
        if not append:
            aside.replace(here)
            return
        with open(here, "ab") as stream:
            stream.write(aside.read_bytes())
        aside.unlink()

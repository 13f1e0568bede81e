# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Retries calls to a remote load while the connection is lost, and fetches its files over it.

The same for a load on another host and in a pod. The load itself continues without the connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import AccessError

#: Pause between two attempts, seconds.
_PAUSE = 2.0
#: How long a refusal is not believed, seconds.
_REFUSED = 20.0


@dataclass
class ConnectionRetry:
    """The connection to a remote load.

    who: the other end, for messages. run: id of the run. patience: how long to retry, seconds. lost: returns whether an
    error is a lost connection. again: called before each further attempt. refused: returns whether an error is a
    refusal, which an API server that has just started gives until it has read its rules.
    """

    who: str
    run: str
    patience: float
    say: Callable[[str], None]
    lost: Callable[[Exception], bool]
    again: Callable[[], None] = lambda: None
    refused: Callable[[Exception], bool] = lambda _error: False
    _answered: bool = field(default=False, init=False)  # whether a call has succeeded

    def call(self, what: str, do: Callable[[], Any]) -> Any:
        """Call ``do``, and repeat it while the connection is lost. ``what``: for messages, such as "following it".

        Raises AccessError after ``patience`` seconds, and any other error of ``do``; a refusal after _REFUSED seconds.
        """
        began: float | None = None
        refused: float | None = None
        while True:
            try:
                found = do()
                self._answered = True
                return found
            except Exception as error:
                now = time.monotonic()
                if self.refused(error) and self._answered:
                    refused = now if refused is None else refused
                    if now - refused > _REFUSED:
                        raise
                elif not self.lost(error):
                    raise
                if began is None:
                    began = now
                    self.say(f"no connection while {what}: the load continues there, retrying ({error})")
                if now - began > self.patience:
                    raise AccessError(
                        f"{self.who} could not be reached again for {now - began:.0f} s while {what}. The load goes on "
                        f"there; the same task finds it again by its run id ({self.run}): {error}"
                    ) from error
                time.sleep(_PAUSE)
                self.again()

    def fetch(self, fetch: Callable[[Path], Any], here: Path, append: bool = False) -> None:
        """Let ``fetch`` write a temporary file, then replace ``here`` with it, or append it to ``here``."""
        aside = here.with_name(f".{here.name}.fetched")
        self.call(f"fetching {here.name}", lambda: fetch(aside))
        if not append:
            aside.replace(here)
            return
        with open(here, "ab") as stream:
            stream.write(aside.read_bytes())
        aside.unlink()

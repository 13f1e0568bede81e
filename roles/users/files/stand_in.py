# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the controllers of notebooks and pipelines on a rehearsal cluster, which has neither.

    python3 stand_in.py <path of the kind's objects in the API>

It writes the status that the real controller would write, after fixed times, and creates no pods: with it, only users,
API server and sampler are tested. Runs in a pod, with Python 3.9 or later and its standard library only.
"""

import heapq
import signal
import sys
import threading
import time

from pod_api import Api

#: Kind -> (seconds after its creation, status) of what the stand-in writes. The times mean nothing.
LIVES = {
    "Notebook": [
        (0.5, {"containerState": {"running": {"startedAt": "{now}"}}}),
        (1.0, {"readyReplicas": 1, "conditions": [{"type": "Running", "status": "True"}]}),
    ],
    "Workflow": [
        (0.3, {"phase": "Running", "startedAt": "{now}"}),
        (2.0, {"phase": "Succeeded", "finishedAt": "{now}"}),
    ],
}


class StandIn:
    """Writes statuses when they are due. One thread watches, the main thread writes."""

    def __init__(self, path):
        self.api, self.path = Api(), path
        self.due, self.known, self.changed = [], set(), threading.Condition()
        self.over = False

    def see(self, thing):
        """Note an object that is new; return whether to end."""
        if thing is None:
            return self.over
        uid, name = thing["metadata"]["uid"], thing["metadata"]["name"]
        with self.changed:
            if uid in self.known:
                return self.over
            self.known.add(uid)
            for after, status in LIVES[thing["kind"]]:
                heapq.heappush(self.due, (time.monotonic() + after, len(self.known), name, status))
            self.changed.notify()
        return self.over

    def watch(self):
        self.api.watch(self.path, "", self.see)

    def serve(self):
        writer = Api()
        while True:
            with self.changed:
                while not self.over and (not self.due or self.due[0][0] > time.monotonic()):
                    self.changed.wait(self.due[0][0] - time.monotonic() if self.due else None)
                if self.over:
                    return
                _at, _number, name, status = heapq.heappop(self.due)
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            status = dated(status, now)
            # 404: it was deleted before.
            path = f"{self.path}/{name}/status"
            writer.patiently("PATCH", path, {"status": status}, "application/merge-patch+json", fine=(404,))


def dated(value, now):
    """Return a status with {now} replaced."""
    if isinstance(value, dict):
        return {key: dated(one, now) for key, one in value.items()}
    return now if value == "{now}" else value


def main(path):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    one = StandIn(path)
    threading.Thread(target=one.watch, daemon=True).start()
    one.serve()


if __name__ == "__main__":
    main(sys.argv[1])

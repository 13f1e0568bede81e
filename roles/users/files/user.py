# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the pod of a user: waits until the user is released, then runs its command.

    python3 user.py run <command> [<argument> …]    where the image has Python: waits, runs the command, reports
    python3 user.py wait                            in an init container: waits, and ends

Standard library only, Python 3.9 or later. It gets everything else from the environment. All moments are seconds on the
monotonic clock of the pod, since the user was ready; the clock of the pod is compared with no other one.
"""

import json
import os
import signal
import subprocess
import sys
import time

from pod_api import Api, shortened

#: The annotation of the pod by which the sampler dates what happens, and where the kubelet reads the report.
ANNOTATION, REPORT = "seatrial-user", "/dev/termination-log"


class User:
    """The user of this pod."""

    def __init__(self):
        self.api = Api()
        self.index, self.name = int(os.environ["SEATRIAL_INDEX"]), os.environ["SEATRIAL_POD"]
        self.began = time.monotonic()
        self.ready = False
        self.moments = {}
        # The command does not inherit the URL, with which anybody could write.
        self.upload = {one: os.environ.pop(f"SEATRIAL_UPLOAD_{one}", "") for one in ("URL", "AUTHORITY", "LIMIT")}

    def note(self, what):
        self.moments[what] = round(time.monotonic() - self.began, 6)

    def say(self, state):
        """Tell the sampler what happened: one write to this pod."""
        path = f"/api/v1/namespaces/{self.api.namespace}/pods/{self.name}"
        change = {"metadata": {"annotations": {ANNOTATION: state}}}
        self.note(f"{state}_sent")
        self.api.patiently("PATCH", path, change, "application/merge-patch+json")
        self.note(f"{state}_answered")

    def wait(self):
        """Return when the user is released."""

        def watching():
            if not self.ready:
                self.ready = True
                self.began = time.monotonic()
                self.say("ready")

        def released(lease):
            self.note("received")
            return lease is not None and (lease["spec"].get("leaseTransitions") or 0) > self.index

        leases = f"/apis/coordination.k8s.io/v1/namespaces/{self.api.namespace}/leases"
        self.api.watch(leases, os.environ["SEATRIAL_RELEASE"], released, watching)
        if not self.ready:  # it was released before: this user is late
            received = self.moments["received"]
            self.say("ready")
            self.moments["received"] = received

    def run(self, command):
        """Run the command; return its exit code, as a shell does."""
        self.note("started")
        try:
            process = subprocess.Popen(command)
        except OSError as error:
            print(f"seatrial: {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
            return 127 if isinstance(error, FileNotFoundError) else 126
        self.note("begun")
        signal.signal(signal.SIGTERM, lambda number, _frame: process.send_signal(number))
        self.say("begun")
        code = process.wait()
        self.note("ended")
        self.say("ended")
        return 128 - code if code < 0 else code


def report(found):
    """Let the kubelet write the report into the status of the pod.

    It allows 4,096 bytes, and a report that is cut cannot be read: texts of any length in it must be shortened().
    """
    with open(REPORT, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(found, separators=(",", ":")))


def main(arguments):
    # The first process of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    user = User()
    user.wait()
    if arguments[0] == "wait":
        report({"moments": user.moments})
        return 0
    code = user.run(arguments[1:])
    found = {"exit_code": code, "moments": user.moments}
    folder = os.environ.get("SEATRIAL_FILES", "")
    if folder:
        import sent_files  # beside this file, if users have files

        try:
            found["files"] = sent_files.send(user, folder, int(os.environ["SEATRIAL_FILES_LIMIT"]))
        except Exception as error:  # the command's exit code matters more
            found["files_error"] = shortened(f"{type(error).__name__}: {error}", 800)
    report(found)
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

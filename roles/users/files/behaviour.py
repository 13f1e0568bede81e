# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A simulated user: thinks, creates an object, waits until it can be used, uses it, deletes it, and begins again.

    python3 behaviour.py <behaviour.json>

Runs as the command of user.py, in its pod, with Python 3.9 or later and its standard library only. A closed model: the
next object follows the end of the one before. Each object gives a line in operations.jsonl of the folder for files.
The exit code is 1 if any object could not be used.
"""

import json
import os
import random
import sys
import time

from pod_api import Api, labels_of_point


def drawn(chance, what):
    """Return a time in seconds of a distribution: fixed, uniform, exponential or lognormal, between low and high."""
    kind, mean = what.get("type", "fixed"), float(what.get("mean", 0))
    low, high = float(what.get("low", 0)), float(what.get("high", "inf"))
    if kind == "uniform":
        return chance.uniform(low, high)
    if kind == "exponential":
        mean = chance.expovariate(1 / mean) if mean else 0.0
    elif kind == "lognormal":
        sigma = float(what["sigma"])
        mean *= chance.lognormvariate(-sigma * sigma / 2, sigma)
    return min(max(mean, low), high)


def reached(thing, stage):
    """Return whether an object shows a stage, which is defined as for the sampler: by a condition or a field."""
    if "condition" in stage:
        found = (thing.get("status") or {}).get("conditions") or []
        return any(one["type"] == stage["condition"] and one["status"] == "True" for one in found)
    value = thing
    for key in stage["field"].split("."):
        value = value.get(key) if isinstance(value, dict) else None
    wanted = stage.get("equals")
    return bool(value) if wanted is None else value in (wanted if isinstance(wanted, list) else [wanted])


def filled(value, words):
    """Return a template with {words} replaced in every text."""
    if isinstance(value, dict):
        return {key: filled(one, words) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, words) for one in value]
    if isinstance(value, str):
        for key, word in words.items():
            value = value.replace("{" + key + "}", word)
    return value


class Operation:
    """One object from its creation until it is gone, in seconds since the request for it was sent."""

    def __init__(self, api, given, name):
        self.api, self.given, self.name = api, given, name
        self.path = given["path"].replace("{namespace}", api.namespace)
        self.times = {}
        self.began = 0.0

    def note(self, what):
        self.times.setdefault(what, round(time.monotonic() - self.began, 6))

    def create(self):
        words = {"name": self.name, "namespace": self.api.namespace, "image": self.given["image"]}
        body = filled(self.given["object"], words)
        labels = {**labels_of_point(), "perfscale.seatrial/index": os.environ["SEATRIAL_INDEX"]}
        body["metadata"] = {**(body.get("metadata") or {}), "name": self.name, "labels": labels}
        self.began = time.monotonic()
        self.api.patiently("POST", self.path, body, fine=(409,))
        self.note("created")

    def wait(self):
        """Return whether the object became usable; False if it failed, was deleted, or took too long."""
        deadline = time.monotonic() + self.given["timeout"]

        def see(thing):
            if thing is None:
                return "deleted"
            for one in self.given["stages"]:
                if reached(thing, one):
                    self.note(one["name"])
                    if one.get("ends"):
                        return one["ends"]
            return "timed out" if time.monotonic() > deadline else ""

        return self.api.watch(self.path, self.name, see, deadline=deadline) or "timed out"

    def delete(self):
        self.note("delete")
        self.api.patiently("DELETE", f"{self.path}/{self.name}", fine=(404,))
        deadline = time.monotonic() + self.given["timeout"]
        self.api.watch(self.path, self.name, lambda thing: thing is None, deadline=deadline)
        self.note("gone")


def main(path):
    with open(path, encoding="utf-8") as stream:
        given = json.load(stream)
    index = os.environ["SEATRIAL_INDEX"]
    chance, api = random.Random(f"{given['seed']}/{index}"), Api()
    folder, failures = os.environ["SEATRIAL_FILES"], 0
    began = time.monotonic()
    with open(os.path.join(folder, "operations.jsonl"), "a", encoding="utf-8") as written:
        for number in range(given["iterations"]):
            time.sleep(drawn(chance, given["think"]))
            one = Operation(api, given, f"{os.environ['SEATRIAL_POD']}-{number}")
            at = round(time.monotonic() - began, 6)
            error = ""
            try:
                one.create()
                outcome = one.wait()
                if outcome == "succeeded":
                    one.note("usable")
                    time.sleep(drawn(chance, given["use"]))
                one.delete()
            except Exception as caught:  # the next one may work
                outcome, error = "failed", f"{type(caught).__name__}: {caught}"
                print(f"{one.name}: {error}", file=sys.stderr, flush=True)
            failures += outcome != "succeeded"
            row = {"number": number, "name": one.name, "at": at, "outcome": outcome, "error": error, "times": one.times}
            written.write(json.dumps(row) + "\n")
            written.flush()
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))

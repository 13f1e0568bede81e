"""Runs workload_submit or workload_sample in a separate process, so that a test can kill it.

usage: drive_workload.py submit|sample OPTIONS.json    prints the result or {"failed": ..., "msg": ...} as JSON
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

COLLECTIONS = Path(__file__).resolve().parents[2] / "collections"


def defaults(options: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with the defaults that AnsibleModule would add."""
    filled = {}
    for name, one in spec.items():
        value = options.get(name, one.get("default"))
        if isinstance(value, dict) and "options" in one:
            value = defaults(value, one["options"])
        elif isinstance(value, list) and "options" in one:
            value = [defaults(each, one["options"]) for each in value]
        filled[name] = value
    return filled


def start(what: str, options: dict[str, Any], folder: Path) -> subprocess.Popen[str]:
    """Start a call in a new process group; it prints its result."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{what}-options.json"
    path.write_text(json.dumps(options, default=str), encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, __file__, what, str(path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def result(process: subprocess.Popen[str], timeout: float = 300) -> dict[str, Any]:
    """Wait for a started call and return its result."""
    output, _none = process.communicate(timeout=timeout)
    return json.loads(output)


def main(what: str, path: str) -> None:
    """Be the process."""
    sys.path.insert(0, str(COLLECTIONS))
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
    from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import (
        ProgressLog,
        StepDirectory,
    )
    from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import load_spec

    given = json.loads(Path(path).read_text(encoding="utf-8"))
    filled = defaults(given, getattr(load_spec, what.upper()))
    step, progress = StepDirectory(None), ProgressLog(given.get("progress_file"))
    try:
        if what == "submit":
            from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.load_spec import LoadSpec
            from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send.submit_load import LoadRunner

            request = LoadSpec.from_params(filled)
            if request.clients > 1 and request.client is None:
                from ansible_collections.perfscale.seatrial.plugins.module_utils._load.remote import (
                    load_in_local_processes,
                )

                found = load_in_local_processes.run_local_clients(filled, request, step, progress)
            else:
                found = LoadRunner(request, step, progress).run()
        else:
            from ansible_collections.perfscale.seatrial.plugins.module_utils._load.send import sampling_without_sending

            found = sampling_without_sending.run_load_sampling(load_spec.SampleSpec.from_params(filled), step, progress)
    except SeatrialError as error:
        found = {"failed": type(error).__name__, "msg": str(error)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

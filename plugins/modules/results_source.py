#!/usr/bin/python
# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: results_source
short_description: Fetch a run from a directory, an archive, S3 or a web server
version_added: 0.1.0
description:
  - Copies the input files of the results from a run directory, an archive, an S3 prefix or an archive on a web server
    to a new run directory. The source is never changed. No cluster is needed.
  - Files of an older version are migrated to the current schema; those of a newer version are refused.
author:
  - The perfscale.seatrial authors (@perfscale)
requirements:
  - boto3, for C(s3://)
extends_documentation_fragment:
  - perfscale.seatrial._attributes
  - perfscale.seatrial._export.ca_file
  - perfscale.seatrial._export.s3
attributes:
  check_mode:
    support: none
    details: It only fetches or copies a run; without the copy there is no result.
  diff_mode:
    support: none
    details: The files that it writes are its result.
  idempotent:
    support: none
    details: Each call creates a new directory.
options:
  sources:
    description:
      - Directories of runs, archives (C(.tar), C(.tar.gz), C(.tgz), C(.tar.bz2), C(.tar.xz), C(.zip)),
        C(s3://bucket/prefix), or C(https://host/archive).
    type: list
    elements: str
    required: true
  dest:
    description: Directory in which the run directories are created.
    type: path
    required: true
  suffix:
    description: Suffix of the names of the new run directories.
    type: str
    default: -replot
  keep_directories:
    description: Whether to use directories with timelines in place instead of copying them.
    type: bool
    default: false
  settings:
    description:
      - Settings of the points that are replaced in the copies, such as limits of KPIs. They must be of the evaluation,
        because the others say what was measured.
    type: dict
    default: {}
seealso:
  - module: perfscale.seatrial.results
  - module: perfscale.seatrial.results_compare
"""

EXAMPLES = r"""
- name: Fetch a run
  perfscale.seatrial.results_source:
    sources: [s3://results/nightly/fine_tuning-light-t1121-k3f9xa]
    dest: artifacts
"""

RETURN = r"""
runs:
  description: The runs, in the order of O(sources).
  returned: success
  type: list
  elements: dict
  contains:
    path:
      description: The directory.
      type: str
    run:
      description: The id of the run.
      type: str
    role:
      description: The role of its project, in full for one of another collection; empty if unknown.
      type: str
    source:
      description: The source.
      type: str
    migrated:
      description: Files that were migrated to a newer schema, one sentence each.
      type: list
      elements: str
    damaged:
      description: Files of the run that are missing or cannot be read, one sentence each.
      type: list
      elements: str
"""

import signal
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import (
    ansible_module,
    files,
    signals,
    untrusted_archives,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.step_directory import StepDirectory
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3
from ansible_collections.perfscale.seatrial.plugins.module_utils._outside.export import export_run
from ansible_collections.perfscale.seatrial.plugins.module_utils._run import fetch_run, run_reader


def _end(number: int, _frame: object) -> None:
    """End the process as a signal does, after the folders of its blocks are removed."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "sources": {"type": "list", "elements": "str", "required": True},
            "dest": {"type": "path", "required": True},
            "suffix": {"type": "str", "default": "-replot"},
            "keep_directories": {"type": "bool", "default": False},
            "settings": {"type": "dict", "default": {}},
            **export_run.S3_OPTIONS,
        },
        required_together=[("access_key", "secret_key")],
    )

    def download(url: str, folder: Path) -> None:
        s3.download_objects_to_folder(export_run.s3_location(module.params, url), folder, untrusted_archives.MOST_BYTES)

    def fetch(step: StepDirectory) -> dict[str, Any]:
        params = module.params
        rows = []
        for source in params["sources"]:
            kept = fetch_run.directory_if_timelines_complete(source) if params["keep_directories"] else None
            fetched = kept or fetch_run.fetch_run_directory(
                source, Path(params["dest"]), download, params["ca_file"] or "", params["suffix"]
            )
            run = run_reader.read_run_directory(fetched.path)
            if kept is None:
                fetch_run.replace_settings_of_points(run, params["settings"])
            if run.record and kept is None:
                files.write_yaml(fetched.path / "run.yml", {**run.record, "replot": fetched.replot_entry()})
            role = str(run.record.get("role") or run.record.get("project") or "")
            row = {"path": str(fetched.path), "run": run.id, "role": role, "source": source}
            rows.append({**row, "migrated": fetched.migrated, "damaged": run.missing})
        return {"changed": True, "runs": rows}

    # A killed session leaves nothing that was unpacked.
    signal.signal(signal.SIGTERM, _end)
    with signals.exit_with_parent():
        ansible_module.run_module_work(module, fetch)


if __name__ == "__main__":
    main()

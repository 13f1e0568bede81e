# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that export modules and results_source share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import ansible_module
from ansible_collections.perfscale.seatrial.plugins.module_utils._http import s3

#: The run, and the secrets that must not be exported with it (doc fragment _export).
GATE: dict[str, Any] = {
    **ansible_module.RUN_DIR,
    "invalid": {"type": "str", "default": "label", "choices": ["label", "skip"]},
    "secrets": {"type": "dict", "default": {}, "no_log": True},
    "kubeconfigs": {"type": "list", "elements": "path", "default": []},
}

#: How to reach an S3 server (doc fragments _export.s3 and _export.ca_file).
S3: dict[str, Any] = {**ansible_module.S3_SERVER, **ansible_module.CA_FILE}


def location_of(given: Mapping[str, Any], url: str, **more: Any) -> s3.S3Location:
    """Return the location of an s3:// address with the S3 options of a module. Raises InputError."""
    bucket, prefix = s3.split(url)
    return s3.S3Location(
        bucket,
        prefix,
        given["endpoint"],
        given["region"],
        given["ca_file"] or "",
        given["access_key"],
        given["secret_key"],
        **more,
    )

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of the modules that compare with past runs: where these are, and which of them are comparable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import common_options
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.opensearch import OpenSearchServer
from ansible_collections.perfscale.seatrial.plugins.module_utils._http.s3 import S3Location

from .collect_history import HistoryRequest
from .history_sources import USED
from .matching import LabelRules

_NAMES: dict[str, Any] = {"type": "list", "elements": "str", "default": []}
_TEXT: dict[str, Any] = {"type": "str", "default": ""}
_SECRET: dict[str, Any] = {**_TEXT, "no_log": True}

#: Argument spec (doc fragment _history).
OPTIONS: dict[str, Any] = {
    "history": _NAMES,
    "history_runs": {"type": "int", "default": USED},
    "compare_on": _NAMES,
    "ignore": _NAMES,
    "history_s3": {"type": "dict", "options": common_options.S3_SERVER},
    "history_opensearch": {
        "type": "dict",
        "options": {
            "url": _TEXT,
            "index_prefix": {"type": "str", "default": "seatrial"},
            "user": _TEXT,
            "password": _SECRET,
            "token": _SECRET,
        },
    },
    **common_options.CA_FILE,
}


def request_of(given: Mapping[str, Any]) -> HistoryRequest:
    """Return what the options of a module ask for. An unusable address is reported when it is read."""
    authority = given["ca_file"] or ""
    s3 = given["history_s3"] or {}
    location = S3Location(
        "",
        "",
        s3.get("endpoint", ""),
        s3.get("region", ""),
        authority,
        s3.get("access_key", ""),
        s3.get("secret_key", ""),
    )
    server, why = None, "no address of OpenSearch is set"
    search = given["history_opensearch"] or {}
    if search.get("url"):
        parts = (search["url"], search["index_prefix"], search["user"], search["password"], search["token"])
        try:
            server = OpenSearchServer(*parts, authority)
        except InputError as error:
            why = str(error)
    rules = LabelRules(tuple(given["compare_on"]), tuple(given["ignore"]))
    return HistoryRequest(tuple(given["history"]), given["history_runs"], rules, location, server, why)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease file of a run that holds bare metal."""

from __future__ import annotations

from typing import Any

from .field_types import COUNT, STAMP, TEXT, TEXTS, TRUTH, object_schema

LEASE: dict[str, dict[str, Any]] = {
    "lease/1": object_schema(
        {
            "schema": {"const": "lease/1"},
            "lease_id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{5,39}$"},
            "api_url": TEXT,
            "owner": TEXT,
            # asking: machines may be held that are not yet known
            "state": {"enum": ["asking", "held", "adopted", "released"]},
            "adopted": TRUTH,
            # The request for a cloud that got no answer yet: at as in the mark, sent by the server's clock.
            "pending": {
                "anyOf": [object_schema({"part": COUNT, "at": COUNT, "sent": {"type": "number"}}), {"type": "null"}],
            },
            "parts": {"type": "array", "items": object_schema({"assignment_id": COUNT, "cloud": TEXT, "ticket": TEXT})},
            "asked_hosts": TEXTS,
            "hosts": TEXTS,
            "lost_hosts": TEXTS,
            # Without Z: by the server's clock, whose time zone is unknown.
            "expires_at": {"type": ["string", "null"], "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?$"},
            # The command that releases it from any machine.
            "release": TEXT,
            "updated": STAMP,
        },
        # Minutes that the server's times are ahead of UTC; null while unknown.
        {"utc_offset": {"type": ["integer", "null"]}},
    ),
}

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""File and line in which a value or key was written, as far as Ansible knows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def place(value: Any) -> str | None:
    """Return ``file:line`` or ``<CLI option '-e'>`` of a value or key, None if unknown."""
    try:
        from ansible._internal._datatag._tags import Origin  # private, but only messages depend on it

        origin = Origin.get_tag(value)
        return str(origin) if origin else None
    except Exception:
        return None


def places(values: Mapping[Any, Any]) -> dict[str, str]:
    """Return key -> origin for the keys whose value or name has a known origin."""
    found = {str(key): place(value) or place(key) for key, value in values.items()}
    return {key: where for key, where in found.items() if where}


def placed(error: Exception, where: str | None = None) -> str:
    """Return the message of an error, followed by the file and line of the value that caused it, if known.

    where: that origin; by default that of the error's ``at``.
    """
    where = where or place(getattr(error, "at", None))
    return f"{error}\nwritten in {where}" if where and not where.startswith("<") else str(error)

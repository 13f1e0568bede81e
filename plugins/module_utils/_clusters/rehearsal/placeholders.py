# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placeholders in component files: ``@{port.etcd.client}`` becomes the instance's value.

The syntax has no meaning in YAML, JSON, shell-like arguments and Go templates, so it can be used in all of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, nearest

_PLACE = re.compile(r"@\{([^{}\s]*)\}")


def render(text: str, values: Mapping[str, object], where: str) -> str:
    """Return ``text`` with every placeholder replaced. Raises InputError for one that has no value."""

    def value_of(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise InputError(f"{where}: unknown placeholder '@{{{name}}}'{nearest(name, values)}")
        return str(values[name])

    return _PLACE.sub(value_of, text)

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse an object whose labels a cluster does not keep: no clean-up would find it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import OwnershipError, SeatrialError

from .object_accessors import format_object_title, get_label


def refuse_lost_labels(
    server: str, manifest: Mapping[str, Any], stored: Any, undo: Callable[[], object] | None = None
) -> None:
    """Raise OwnershipError if labels of this collection that ``manifest`` has are missing in the ``stored`` object.

    stored: the reply of the API server; one that is no object is not checked. undo: removes what was stored.
    """
    if not isinstance(stored, Mapping) or not isinstance(stored.get("metadata"), Mapping):
        return
    sent = manifest["metadata"].get("labels") or {}
    lost = [name for name in sent if name.startswith(run_labels.PREFIX) and get_label(stored, name) != sent[name]]
    if not lost:
        return
    end = ""
    if undo is not None:
        try:
            undo()
            end = ", so it was removed again"
        except SeatrialError as error:
            end = f", and it could not be removed again: {error}"
    raise OwnershipError(
        f"{server} takes the label {lost[0]} from {format_object_title(manifest)}, as a webhook of the cluster may "
        f"do: a clean-up would not find it{end}"
    )

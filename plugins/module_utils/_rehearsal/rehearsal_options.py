# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module rehearsal_cluster is asked."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.component_binaries import Sources
from ansible_collections.perfscale.seatrial.plugins.module_utils._rehearsal.instance_dir import Instance

#: Options of every module that is about an instance (documented in doc_fragments/_rehearsal.py).
SHARED_OPTIONS: dict[str, Any] = {
    "name": {"type": "str", "default": "default"},
    "data_dir": {"type": "path", "default": "~/.local/state/seatrial/rehearsal"},
    "cache_dir": {"type": "path", "default": "~/.cache/seatrial"},
    "components_dir": {"type": "path"},
    "components": {"type": "list", "elements": "str", "default": ["training-operator"]},
    "binaries": {"type": "dict", "default": {}},
    "binaries_dir": {"type": "str", "default": ""},
    "download_url": {"type": "str", "default": ""},
    "owner": {"type": "str", "default": ""},
    "expires": {"type": "str", "default": ""},
}


@dataclass(frozen=True)
class Options:
    """What the module is asked. ``timeout``: for each single wait, seconds. ``owner``: a run's id, "" for nobody's.
    ``expires``: when anybody may remove a new instance, as in _step.stamp(); "" for never.

    ``begun``: when the asking began, in seconds since boot; 0 means with the call.
    """

    name: str
    data_dir: str
    cache_dir: str
    components_dir: str
    components: list[str] = field(default_factory=lambda: ["training-operator"])
    binaries: dict[str, str] = field(default_factory=dict)
    binaries_dir: str = ""
    download_url: str = ""
    owner: str = ""
    expires: str = ""
    force: bool = False
    timeout: float = 120.0
    begun: float = 0.0

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Take what is meant for us from a module's parameters."""
        if not given.get("components_dir"):
            raise InputError("components_dir is empty: no folder to read the components from")
        for name in ("data_dir", "cache_dir"):
            if "~" in Path(str(given.get(name))).parts:  # what is left where there is no home folder
                raise InputError(
                    f"rehearsal_{name} is '{given[name]}', but HOME is not set, and the system knows no home of user"
                    f" {os.getuid()}: set HOME to a folder of yours"
                )
        names = [one.name for one in dataclasses.fields(cls)]
        return cls(**{name: given[name] for name in names if given.get(name) is not None})

    @property
    def instance(self) -> Instance:
        """Return the instance's paths."""
        return Instance(self.data_dir, self.name)

    @property
    def sources(self) -> Sources:
        """Return where programs may come from."""
        return Sources(
            Path(self.cache_dir).expanduser().absolute(), self.binaries, self.binaries_dir, self.download_url
        )

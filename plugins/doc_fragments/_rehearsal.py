# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of the modules that look at or change a rehearsal cluster."""

from __future__ import annotations


class ModuleDocFragment:
    """Which instance, of what, and where its programs come from."""

    DOCUMENTATION = r"""
options:
  name:
    description: Name of the instance. Several can run side by side.
    type: str
    default: default
  data_dir:
    description: Folder of all instances. Each has a folder of its name in it.
    type: path
    default: ~/.local/state/seatrial/rehearsal
  cache_dir:
    description: Folder in which programs are kept, by version.
    type: path
    default: ~/.cache/seatrial
  components_dir:
    description:
      - Folder of the components.
      - The action plugin sets it to that of role P(perfscale.seatrial.rehearsal#role).
    type: path
  components:
    description:
      - Components besides etcd, the control plane and KWOK, which are always there.
      - An instance keeps the components that it has. Those named here are added.
    type: list
    elements: str
    default: [training-operator]
  binaries:
    description: Programs to use instead of cached ones, name to path.
    type: dict
    default: {}
  binaries_dir:
    description: Folder that is looked into for each program before the cache is.
    type: str
    default: ''
  download_url:
    description:
      - Place to download programs from instead of building them, such as C(https://mirror.example.com/rehearsal).
        Below it lie C(<component>/<version>/<os>-<arch>/<program>), each with a C(.sha256) beside it.
      - Another layout is written with C({component}), C({version}), C({os}), C({arch}) and C({binary}) in the text.
      - A checksum is recorded at first use and must stay the same.
    type: str
    default: ''
  owner:
    description: Id of the run to which a new instance belongs. It belongs to no run when empty.
    type: str
    default: ''
  expires:
    description:
      - When anybody may remove a new instance, such as V(2026-11-21T22:00:00Z). Never when empty.
    type: str
    default: ''
"""

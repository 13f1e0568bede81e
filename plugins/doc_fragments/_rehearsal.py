# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that inspect or change a rehearsal cluster."""

from __future__ import annotations


class ModuleDocFragment:
    """The instance, its components, and the source of its binaries."""

    DOCUMENTATION = r"""
options:
  name:
    description: Name of the instance. Several instances can run in parallel.
    type: str
    default: default
  data_dir:
    description: Directory of all instances. Each has a subdirectory of its name.
    type: path
    default: ~/.local/state/seatrial/rehearsal
  cache_dir:
    description: Directory in which binaries are cached, by version.
    type: path
    default: ~/.cache/seatrial
  components_dir:
    description:
      - Directory of the component definitions.
      - The action plugin sets it to that of role P(perfscale.seatrial.rehearsal#role).
    type: path
  components:
    description:
      - Components in addition to etcd, the control plane and KWOK, by name or by the path of their folder.
      - Components are added to an existing instance, but never removed from it.
    type: list
    elements: str
    default: []
  nodes_real:
    description:
      - Number of real nodes, at most 1. Pods on a real node run in containers. Requires Linux, and root for
        limits of CPU and memory.
      - A real node is added to an existing instance, but never removed from it.
    type: int
    default: 0
  versions:
    description:
      - Releases of components, name to version. An empty version is the component's own release.
      - An instance that belongs to no run keeps its versions until others are given.
    type: dict
    default: {}
  sources:
    description:
      - Checkouts of the Go modules of components that are built instead of releases, name to path.
      - C(path@revision) is a Git revision of it.
    type: dict
    default: {}
  binaries:
    description: Binaries to use instead of cached ones, name to path.
    type: dict
    default: {}
  binaries_dir:
    description: Directory that is searched for each binary before the cache.
    type: str
    default: ''
  download_url:
    description:
      - Address to download binaries from instead of building them, such as C(https://mirror.example.com/rehearsal). It
        must provide C(<component>/<version>/<os>-<arch>/<binary>) and a C(.sha256) file beside each.
      - For a different layout use C({component}), C({version}), C({os}), C({arch}) and C({binary}) in the address.
      - A checksum is recorded at the first download and must not change later.
    type: str
    default: ''
  fetch_published:
    description:
      - Which binaries that upstream publishes are fetched from there before they are built. With V(pinned) those whose
        checksum the component has in C(published.sha256), with V(checked) also others that match the checksum of their
        publisher and that of their first use, with V(never) none. Without effect with O(download_url).
    type: str
    choices: [pinned, checked, never]
    default: pinned
  owner:
    description: Id of the run that owns a new instance. Empty means no run.
    type: str
    default: ''
  expires:
    description:
      - Time in UTC after which anybody may remove a new instance, such as V(2026-11-21T22:00:00Z). Never if empty.
    type: str
    default: ''
"""

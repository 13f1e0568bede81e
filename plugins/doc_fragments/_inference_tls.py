# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that send requests to inference servers."""

from __future__ import annotations


class ModuleDocFragment:
    """TLS of the servers."""

    DOCUMENTATION = r"""
options:
  ca_file:
    description: File of the CA certificates to trust. Empty means those of the system.
    type: path
  validate_certs:
    description: Whether certificates are verified.
    type: bool
    default: true
"""

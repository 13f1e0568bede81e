# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PRIVATE: the machines, and how to reach their BMCs."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of the modules that talk to BMCs, see machine_fleet.py."""

    DOCUMENTATION = r"""
options:
  machines:
    description: The machines.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the machine, for messages.
        type: str
        required: true
      address:
        description: Address of the BMC, with or without C(https://) and a port.
        type: str
        required: true
      user:
        description: User of the BMC.
        type: str
        required: true
      password:
        description: The user's password. It takes precedence over O(passwords) and O(password).
        type: str
        default: ''
      system:
        description: Id of the machine's System, if the BMC has several.
        type: str
        default: ''
      role:
        description: Not used. Permits machines as M(perfscale.seatrial.openshift_install) returns them.
        type: str
      ip:
        description: Not used, like O(machines[].role).
        type: str
  passwords:
    description: Passwords by name of the machine.
    type: dict
    default: {}
  password:
    description: Password of the other machines.
    type: str
    default: ''
  validate_certs:
    description: Whether to verify the certificates of the BMCs. Many BMCs have self-signed certificates.
    type: bool
    default: true
  ca_path:
    description: File with the CA certificates that the BMCs are verified with.
    type: path
  timeout:
    description: Timeout of one request, in seconds.
    type: int
    default: 30
  contact_timeout:
    description: Timeout for the first response of a BMC, in seconds.
    type: float
    default: 120
  wait_timeout:
    description: Timeout for all machines together, in seconds.
    type: float
    default: 900
  vendors:
    description: Overrides for the known differences between BMC vendors, by a part of the vendor's name or V(all).
    type: dict
    default: {}
"""

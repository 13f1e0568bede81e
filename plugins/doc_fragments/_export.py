# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options that modules export_* and other clients of servers share."""

from __future__ import annotations


class ModuleDocFragment:
    """The option for invalid runs; in further fragments secrets, the server's certificates and an S3 server."""

    DOCUMENTATION = r"""
options:
  invalid:
    description:
      - What to do with a run whose verdict is invalid, or that has a point that could not be parsed.
      - V(label) exports it with the status V(invalid), V(skip) does not export it.
    type: str
    choices: [label, skip]
    default: label
"""

    SECRETS = r"""
options:
  secrets:
    description:
      - Values that must not be written or sent, by name. The action plugin adds the values of all secret settings of
        this collection.
    type: dict
    default: {}
  kubeconfigs:
    description:
      - Kubeconfigs whose credentials must not be written or sent. The action plugin adds those of the run's clusters.
    type: list
    elements: path
    default: []
"""

    CA_FILE = r"""
options:
  ca_file:
    description: PEM file of the certificate authorities to trust for the server. Empty means those of the system.
    type: path
"""

    S3 = r"""
options:
  endpoint:
    description: Address of the S3 server. Empty means Amazon S3.
    type: str
    default: ''
  region:
    description: Region of the bucket.
    type: str
    default: us-east-1
  access_key:
    description: Access key of the S3 server. Without it boto3 searches its usual sources of credentials.
    type: str
    default: ''
  secret_key:
    description: Secret key of O(access_key).
    type: str
    default: ''
"""

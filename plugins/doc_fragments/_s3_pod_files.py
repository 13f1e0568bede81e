# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that collect files of pods through an S3 server."""

from __future__ import annotations


class ModuleDocFragment:
    """The S3 server, and its certificate authority."""

    DOCUMENTATION = r"""
options:
  collect_s3:
    description:
      - S3 server for files that are too large for the API server. It needs boto3 on the controller. The pods get no
        credentials, only a URL for one object of each client or user, which can be used for a day.
    type: dict
    default: {}
    suboptions:
      url:
        description: Bucket and prefix, C(s3://bucket/prefix). Empty means none.
        type: str
        default: ''
      endpoint:
        description: Address of the server, as the pods reach it. Empty means Amazon S3.
        type: str
        default: ''
      region:
        description: Region of the bucket.
        type: str
        default: us-east-1
      access_key:
        description: Access key. Without it boto3 searches its usual sources of credentials.
        type: str
        default: ''
      secret_key:
        description: Secret key of O(collect_s3.access_key).
        type: str
        default: ''
  ca_file:
    description: Certificate authority of the S3 server, for controller and pods.
    type: path
"""

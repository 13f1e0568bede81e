# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PRIVATE: options of modules that compare with past runs."""

from __future__ import annotations


class ModuleDocFragment:
    """Where past runs are, and which of them are comparable; in a further fragment how KPIs are judged by them."""

    DOCUMENTATION = r"""
options:
  history:
    description:
      - Where past runs are. Folders with run directories, C(s3://bucket/prefix), or V(opensearch) for the index of
        O(history_opensearch). Without any, KPIs are compared with limits only.
      - A source that cannot be read is a warning.
    type: list
    elements: str
    default: []
  history_runs:
    description: Number of past runs to use, the newest comparable ones.
    type: int
    default: 50
  compare_on:
    description:
      - Patterns of labels that may differ between runs. Past runs that differ in one are the old group, others belong
        to the group of this run.
    type: list
    elements: str
    default: []
  ignore:
    description: Patterns of labels that do not matter.
    type: list
    elements: str
    default: []
  history_s3:
    description: The S3 server of C(s3://) sources.
    type: dict
    suboptions:
      endpoint:
        description: Address of the server. Empty means Amazon S3.
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
        description: Secret key of O(history_s3.access_key).
        type: str
        default: ''
  history_opensearch:
    description: The OpenSearch server of source V(opensearch).
    type: dict
    suboptions:
      url:
        description: Address of the server. HTTP is allowed for the same machine only.
        type: str
        default: ''
      index_prefix:
        description: Beginning of the names of the indices.
        type: str
        default: seatrial
      user:
        description: User name for basic authentication.
        type: str
        default: ''
      password:
        description: Password of O(history_opensearch.user).
        type: str
        default: ''
      token:
        description: Bearer token, instead of user and password.
        type: str
        default: ''
"""

    JUDGING = r"""
options:
  judged:
    description: KPIs to compare with history. Names, patterns, V(headline) or V(all).
    type: list
    elements: str
    default: [headline]
  level:
    description: Probability of any false regression in a run whose product did not change.
    type: float
    default: 0.01
  least:
    description:
      - Smallest difference that matters, as a share of the past value. A number, or a dictionary of numbers by KPI name
        or pattern with C(*).
    type: raw
    default: 0.05
  power:
    description: Probability with which the estimated number of further runs would find O(least).
    type: float
    default: 0.8
  correction:
    description: Correction of p-values for the number of judged KPIs. V(fdr) is Benjamini-Hochberg.
    type: str
    choices: [holm, fdr, none]
    default: holm
  minimum_segment:
    description: Number of runs between two change points, at least 2.
    type: int
    default: 3
  seed:
    description: Seed of the tests of change points.
    type: int
    default: 1
  acknowledged:
    description: Known regressions. Each has C(kpi), C(since), a run or a version, C(until), a day, and C(ticket).
    type: list
    elements: dict
    default: []
"""

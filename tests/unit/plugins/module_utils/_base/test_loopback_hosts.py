# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts are this machine."""

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.loopback_hosts import is_loopback_host
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost", "localhost.", "127.0.0.1", "127.0.0.2", "::1", "::ffff:127.8.0.1"]
)
def test_a_loopback_host_is_this_machine(host):
    assert is_loopback_host(host)


@pytest.mark.parametrize(
    "host", [None, "", "0.0.0.0", "localhost.example.com", "127.0.0.1.example.com", "127.1", "2130706433", "::"]
)
def test_another_host_is_not_this_machine(host):
    assert not is_loopback_host(host)


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_this_machine_within_127_only(address):
    assert is_loopback_host(str(address)) == (address in ipaddress.ip_network("127.0.0.0/8"))

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts are this machine: requests to them use no proxy, and may carry credentials over plain HTTP."""

from __future__ import annotations

import ipaddress


def is_loopback_host(host: str | None) -> bool:
    """Return whether a host is this machine, as golang.org/x/net/http/httpproxy decides, and so kubectl.

    Args:
        host: Name or address without a port and brackets, in any case; None and "" are no host.

    Returns:
        True for localhost and for the loopback addresses of IPv4 (127.0.0.0/8) and IPv6 (::1, and mapped IPv4).
        Other names are not resolved: a name server could say anything.
    """
    name = (host or "").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback

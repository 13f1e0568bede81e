# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proxy of the environment on the way to an API server, chosen as kubectl does (golang.org/x/net/http/httpproxy).

HTTPS_PROXY or https_proxy for a server with TLS, HTTP_PROXY or http_proxy for one without; NO_PROXY or no_proxy lists
hosts that are reached without one: names with their subdomains, .names, addresses, networks, each with or without a
port, or * for all. This machine itself is always reached without one.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Mapping

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import formats

from .server import ProxyAddress, parse_proxy_url


def proxy_of_environment(
    scheme: str, host: str, port: int, environment: Mapping[str, str] | None = None
) -> ProxyAddress | None:
    """Return the proxy for a server, None for none. Raises InputError naming the variable of an unsupported one."""
    held = os.environ if environment is None else environment
    name = f"{scheme}_proxy"
    variable = next((spelled for spelled in (name.upper(), name) if held.get(spelled)), "")
    exceptions = next((held[spelled] for spelled in ("NO_PROXY", "no_proxy") if held.get(spelled)), "")
    if not variable or _is_excepted(host.rstrip(".").lower(), port, exceptions):
        return None
    url = held[variable]
    return parse_proxy_url(url if "://" in url else f"http://{url}", "environment", variable)


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    """Return whether a host is reached without a proxy."""
    address = None
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), host, port, address) for entry in exceptions.split(","))


def _matches(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    """Return whether an entry of NO_PROXY is about a host."""
    if not entry:
        return False
    if entry == "*":
        return True
    if address is not None:
        with contextlib.suppress(ValueError):
            return address in ipaddress.ip_network(entry, strict=False)
    name, colon, wanted = entry.rpartition(":")
    number = formats.parse_whole_number(wanted)
    if colon and number is not None and (name.count(":") == 0 or name.startswith("[")):
        if number != port:
            return False
        entry = name.strip("[]")
    if address is not None:
        with contextlib.suppress(ValueError):
            return address == ipaddress.ip_address(entry)
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")

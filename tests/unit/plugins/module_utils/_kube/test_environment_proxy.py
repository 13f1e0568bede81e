"""The proxy of the environment, as golang.org/x/net/http/httpproxy chooses it."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.api_server_access import (
    ProxyAddress,
    proxy_of_environment,
)

PROXY = {"HTTPS_PROXY": "http://me:p%40@proxy:3128"}


def test_the_variable_of_the_scheme_counts_and_its_upper_case_first() -> None:
    chosen = proxy_of_environment("https", "api.lab.example.com", 6443, {**PROXY, "https_proxy": "other:1"})
    assert chosen == ProxyAddress("http", "proxy", 3128, "me", "p@")
    assert proxy_of_environment("https", "api", 6443, {"https_proxy": "other:1"}) == ProxyAddress("http", "other", 1)
    assert proxy_of_environment("http", "api", 80, PROXY) is None
    assert proxy_of_environment("https", "api", 6443, {"ALL_PROXY": "http://other:1"}) is None
    with pytest.raises(InputError, match="environment: HTTPS_PROXY has scheme 'ftp'"):
        proxy_of_environment("https", "api", 6443, {"HTTPS_PROXY": "ftp://other:1"})


@pytest.mark.parametrize(
    ("exceptions", "host", "without"),
    [
        ("", "localhost", True),
        ("", "127.0.0.9", True),
        ("", "::1", True),
        ("", "10.0.0.1", False),
        ("*", "api.lab.example.com", True),
        ("example.com", "api.lab.example.com", True),
        ("example.com", "example.com", True),
        ("example.com", "badexample.com", False),
        (".example.com", "api.lab.example.com", True),
        (".example.com", "example.com", False),
        ("*.example.com", "api.example.com", True),
        ("EXAMPLE.com", "api.Example.com.", True),
        ("example.com:6443", "api.example.com", True),
        ("example.com:443", "api.example.com", False),
        ("other, 10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3:6443", "10.1.2.3", True),
        ("10.1.2.3:443", "10.1.2.3", False),
        ("fd00::/8", "fd00::5", True),
        ("[fd00::5]:6443", "fd00::5", True),
        (",, ,", "api", False),
    ],
)
def test_hosts_that_are_excepted_are_reached_without_it(exceptions: str, host: str, without: bool) -> None:
    chosen = proxy_of_environment("https", host, 6443, {**PROXY, "no_proxy": exceptions})
    assert (chosen is None) is without

"""Ports: free, kept, nobody else's."""

from __future__ import annotations

import os
import re
import socket

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import instance_processes
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_listened_on_is_not_free(listener: int) -> None:
    assert not instance_processes.is_port_free(listener)


def test_who_listens_on_a_port_is_named(listener: int) -> None:
    assert re.fullmatch(rf"process {os.getpid()} \(python[\d.]*\)", instance_processes.port_listener(listener))


def test_a_port_that_nobody_to_be_seen_listens_on_has_no_name() -> None:
    assert instance_processes.port_listener(1) == "another program"


def test_a_port_whose_connections_linger_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            accepted, _address = server.accept()
            accepted.close()  # the server's side closes first: its port stays in TIME_WAIT
    assert instance_processes.is_port_free(port)


def test_what_is_had_is_kept() -> None:
    chosen = instance_processes.choose_ports(["a", "b"], {"a": 12345}, [])
    assert chosen["a"] == 12345
    assert instance_processes.FIRST_PORT <= chosen["b"] < instance_processes.LAST_PORT


def test_the_same_place_to_begin_gives_other_ports_when_those_are_taken() -> None:
    first = instance_processes.choose_ports(["a", "b", "c"], {}, [], seed=7)
    second = instance_processes.choose_ports(["a", "b", "c"], {}, first.values(), seed=7)
    assert not set(first.values()) & set(second.values())


@settings(deadline=None, max_examples=25)
@given(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=6), st.integers())
def test_every_name_gets_a_port_of_its_own(names: list[str], seed: int) -> None:
    chosen = instance_processes.choose_ports(names, {}, [], seed)
    assert set(chosen) == set(names)
    assert len(set(chosen.values())) == len(names)


def test_when_all_are_taken_the_range_is_named() -> None:
    with pytest.raises(ProcessError, match="no free port between 20000 and 32000 on 127.0.0.1 for a"):
        instance_processes.choose_ports(["a"], {}, range(instance_processes.FIRST_PORT, instance_processes.LAST_PORT))

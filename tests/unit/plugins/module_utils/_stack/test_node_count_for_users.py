"""How many nodes a number of users needs."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.node_count_for_users import (
    NodeSize,
    UserDemand,
    node_count_and_deciding_limit,
)
from hypothesis import given
from hypothesis import strategies as st

NODE = NodeSize(cpu=16, memory=64, volumes=26)


@pytest.mark.parametrize(
    ("users", "user", "nodes", "decides"),
    [
        (0, UserDemand(2, 8), 0, "cpu"),
        (100, UserDemand(2, 8), 15, "cpu"),
        (100, UserDemand(1, 8), 15, "memory"),
        (1000, UserDemand(0.01, 0.01), 5, "pods"),
        (100, UserDemand(0.1, 0.1, volumes=2), 8, "volumes"),
        (10, UserDemand(9, 1), 10, "cpu"),
        (7, UserDemand(0.1, 0), 1, "cpu"),
    ],
)
def test_the_scarcest_limit_decides(users: int, user: UserDemand, nodes: int, decides: str) -> None:
    found = node_count_and_deciding_limit(users, user, NODE)
    assert (found["nodes"], found["decides"]) == (nodes, decides)


def test_users_that_do_not_share_a_node_need_more_than_the_usual_rule_says() -> None:
    found = node_count_and_deciding_limit(10, UserDemand(9, 1), NODE)
    assert (found["nodes"], found["nodes_if_split"]) == (10, 7)


def test_a_user_that_fits_on_no_node_is_refused() -> None:
    with pytest.raises(InputError, match="a user needs 15 of cpu, and a node has room for 14"):
        node_count_and_deciding_limit(1, UserDemand(15, 1), NODE)


@given(
    st.integers(0, 5000),
    st.floats(0.01, 14),
    st.floats(0.01, 60),
    st.integers(1, 20),
    st.integers(0, 26),
)
def test_what_is_computed_is_enough_and_not_one_node_too_many(
    users: int, cpu: float, memory: float, pods: int, volumes: int
) -> None:
    found = node_count_and_deciding_limit(users, UserDemand(cpu, memory, pods, volumes), NODE)
    each = found["users_per_node"]
    assert each * cpu <= 14 + 1e-6 and each * memory <= 60 + 1e-6
    assert each * pods <= 235 and each * volumes <= 26
    assert found["nodes"] * each >= users
    assert (found["nodes"] - 1) * each < max(users, 1)
    assert found["nodes"] >= found["nodes_if_split"]

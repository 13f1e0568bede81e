"""Users: who is registered, and what a refused password asks for."""

from __future__ import annotations

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._lab import quads_errors
from quads_simulator.virtual import Wire, client


def test_a_user_is_registered_once(lab):
    one = client(lab.simulator, Wire(lab.simulator))
    del lab.simulator.access.users["joe@example.com"]
    assert one.register(dry_run=True)
    assert "joe@example.com" not in lab.simulator.access.users
    assert one.register()
    assert not one.register()


def test_the_wrong_password_of_a_user_who_exists_says_what_to_do(lab):
    client(lab.simulator, Wire(lab.simulator))
    one = client(lab.simulator, Wire(lab.simulator), password="another")
    with pytest.raises(quads_errors.BadCredentials, match="registered at .* with another password.*lab reset it"):
        one.register()
    with pytest.raises(quads_errors.BadCredentials, match="password is wrong, or .* not registered: state=registered"):
        one.log_in()


def test_an_address_that_cannot_be_registered_is_told_as_the_server_does(lab):
    one = client(lab.simulator, Wire(lab.simulator), user="joe@localhost")
    del lab.simulator.access.users["joe@localhost"]
    with pytest.raises(quads_errors.QuadsRefused, match="Invalid email address"):
        one.register()

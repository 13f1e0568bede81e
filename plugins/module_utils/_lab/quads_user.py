# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Registering a user of a QUADS server."""

from __future__ import annotations

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError

from . import server_errors
from .quads_client import QuadsClient


def register(client: QuadsClient, dry: bool) -> bool:
    """Register the user unless it can log in; return whether it was, or with ``dry`` would be, registered.

    Raises InputError, BadCredentials.
    """
    if client.account.api_token:
        raise InputError("api_token belongs to a registered user: set password to register one")
    try:
        client.log_in()
        return False
    except server_errors.BadCredentials as error:
        if dry:
            return True
        if client.register():
            client.log_in()
            return True
        user = client.account.username
        raise server_errors.BadCredentials(
            f"{user} is registered at {client.base} already, with another password than the one given. Give that one, "
            "or have the lab reset it: registering again changes nothing",
            error.status,
            error.said,
        ) from error

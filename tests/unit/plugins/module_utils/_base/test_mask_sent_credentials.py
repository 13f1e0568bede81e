# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a server repeats of a request: none of its credentials reaches a text."""

from __future__ import annotations

import base64
import html
import json

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.mask_sent_credentials import (
    mask_sent_credentials,
)
from hypothesis import given
from hypothesis import strategies as st

TOKEN = 'ab"c<d>/0123\\=='
PASSWORDS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x17F), min_size=4, max_size=30)


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer  ", ""])
@pytest.mark.parametrize(
    "write", [str, lambda text: json.dumps({"message": text}), html.escape, lambda text: f"?a={text}"]
)
def test_a_token_is_masked_however_it_is_quoted(scheme: str, write: object) -> None:
    text = write(f"you sent {TOKEN}!")  # type: ignore[operator]
    masked = mask_sent_credentials(text.encode(), scheme + TOKEN)
    assert masked.decode() == write("you sent <secret>!").replace("&lt;secret&gt;", "<secret>")  # type: ignore[operator]


@given(PASSWORDS)
def test_a_password_is_masked_alone_and_in_its_header(password: str) -> None:
    header = "Basic " + base64.b64encode(f"jo:{password}".encode()).decode()
    masked = mask_sent_credentials(f"Authorization: {header}, jo has\n{password}\n".encode(), header).decode()
    assert masked == "Authorization: Basic <secret>, jo has\n<secret>\n"


def test_a_short_password_is_masked_as_a_word_only() -> None:
    header = "Basic " + base64.b64encode(b"root:kind").decode()
    assert mask_sent_credentials(b'{"kind": "mankind"}', header) == b'{"<secret>": "mankind"}'


def test_other_secrets_of_a_request_are_masked_and_nothing_without_secrets() -> None:
    assert mask_sent_credentials(b"no /services/T0/abcd here", "", "services/T0/abcd") == b"no /<secret> here"
    assert mask_sent_credentials(b"no service", "", "") == b"no service"


@pytest.mark.parametrize("header", ["Basic", "Basic %%%", "Basic " + base64.b64encode(b"\xff\xfe").decode()])
def test_a_header_that_no_client_of_ours_sends_is_no_error(header: str) -> None:
    assert mask_sent_credentials(b"a text", header) == b"a text"

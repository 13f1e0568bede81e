# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TLS contexts from certificates in memory."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError


def make_context(
    authority: bytes | None, certificate: bytes | None, key: bytes | None, insecure: bool, source: str
) -> ssl.SSLContext:
    """Return a client context that trusts ``authority`` (the system's if None) and presents ``certificate``.

    All three are PEM. Raises InputError naming the invalid one, without its content.
    """
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise InputError(f"{source}: certificate-authority is not a PEM certificate") from error
    # The default since Python 3.13; the CAs of many clusters lack the extensions that it requires.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if bool(certificate) != bool(key):
        present, missing = ("client-certificate", "client-key") if certificate else ("client-key", "client-certificate")
        raise InputError(f"{source}: it has {present} but no {missing}")
    if certificate and key:
        with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
            try:
                # An empty password prevents OpenSSL from prompting for one.
                context.load_cert_chain(certificate_file, key_file, password=lambda: "")
            except (ssl.SSLError, ValueError) as error:
                raise InputError(
                    f"{source}: client-certificate and client-key can't be used (not PEM, encrypted, or not a pair)"
                ) from error
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Yield a file with ``content``, in memory if possible: ssl reads keys only from files."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create("seatrial", os.MFD_CLOEXEC)
        try:
            os.write(handle, content)
            yield f"/proc/self/fd/{handle}"
        finally:
            os.close(handle)
    else:
        with tempfile.NamedTemporaryFile() as stream:
            stream.write(content)
            stream.flush()
            yield stream.name

# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of any kind, read through the dynamic client of the package openshift, or of kubernetes without it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    AccessError,
    ApiError,
    InputError,
    SeatrialError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import parse_json

#: Objects in one reply.
PAGE = 250


class DynamicObjects:
    """Lists of objects of one API server. Every method raises SeatrialError, and WaitTimeout after the deadline."""

    def __init__(self, kubeconfig: str, context: str, cache: str, deadline: float) -> None:
        """cache: file for what the client discovers. deadline: on time.monotonic()."""
        try:
            from kubernetes import config

            self._deadline = deadline
            access = config.new_client_from_config(config_file=kubeconfig, context=context or None)
            access.configuration.retries = False
            self._client = _client_class()(access, cache_file=cache)
        except ImportError as error:
            raise InputError(f"objects of arbitrary kinds need the Python package {error.name}") from error
        except Exception as error:  # the package raises errors of its parts
            raise _convert_client_error(error, kubeconfig) from error

    def pages(self, api_version: str, kind: str, selector: str = "", namespace: str = "") -> Iterator[list[Any]]:
        """Yield the objects of a kind, page by page; [] if the server does not have the kind."""
        after = None
        what = f"{kind} ({api_version})"
        try:
            resource = self._client.resources.get(api_version=api_version, kind=kind)
            while True:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    raise WaitTimeout(f"{what}: not read to the end, the time of the capture is over")
                reply = resource.get(
                    serialize=False,
                    namespace=namespace or None,
                    label_selector=selector or None,
                    limit=PAGE,
                    _continue=after,
                    _request_timeout=left,
                )
                page = parse_json(reply.data)
                yield [{"apiVersion": api_version, "kind": kind, **item} for item in page.get("items") or ()]
                after = (page.get("metadata") or {}).get("continue")
                if not after:
                    return
        except SeatrialError:
            raise
        except Exception as error:  # the package raises errors of its parts
            if type(error).__name__ == "ResourceNotFoundError":
                yield []
                return
            raise _convert_client_error(error, what) from error


@contextmanager
def open_dynamic_client(kubeconfig: str, context: str, deadline: float) -> Iterator[DynamicObjects]:
    """Yield the client. What it discovers is not kept: another cluster may soon have the same address."""
    with tempfile.TemporaryDirectory(prefix="seatrial-dynamic-") as folder:
        yield DynamicObjects(kubeconfig, context, str(Path(folder) / "discovery.json"), deadline)


def _client_class() -> Any:
    try:
        from openshift.dynamic import DynamicClient
    except ImportError:
        from kubernetes.dynamic import DynamicClient
    return DynamicClient


def _convert_client_error(error: Exception, what: str) -> SeatrialError:
    """Return an error of the package as one of ours."""
    status = getattr(error, "status", None)
    if status == 401:
        return AccessError(f"{what}: the server refuses our credentials (401)", permanent=True)
    if isinstance(status, int) and status:
        return ApiError(f"{what}: {status} {getattr(error, 'reason', '')}".rstrip(), status)
    return AccessError(f"{what}: {type(error).__name__}: {error}")

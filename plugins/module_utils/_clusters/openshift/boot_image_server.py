# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP server from which BMCs fetch a boot image. It has no directory listings and a limited lifetime."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import files
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ProcessError, WaitTimeout

from . import installer_process

_SERVER = """
import functools, http.server, json, os, signal, sys
folder, address, port, lifetime = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
class Handler(http.server.SimpleHTTPRequestHandler):
    def list_directory(self, path):
        self.send_error(404)
    def log_message(self, form, *words):
        sys.stderr.write(self.address_string() + " " + form % words + chr(10))
        sys.stderr.flush()
handler = functools.partial(Handler, directory=os.path.join(folder, "www"))
server = http.server.ThreadingHTTPServer((address, port), handler)
server.daemon_threads = True
part = os.path.join(folder, ".server.json")
with open(part, "w") as stream:
    json.dump({"pid": os.getpid(), "port": server.server_port}, stream)
os.rename(part, os.path.join(folder, "server.json"))
signal.setitimer(signal.ITIMER_REAL, lifetime)  # SIGALRM ends it
server.serve_forever()
"""


def start_image_server(folder: Path, address: str, port: int, lifetime: float, limit: float = 30.0) -> tuple[int, bool]:
    """Serve ``folder/www`` on address and port (0: any) for ``lifetime`` s; return the port and whether it was started.

    limit: seconds to wait for the server. Raises ProcessError, WaitTimeout.
    """
    state = folder / "server.json"
    if state.exists():
        known = files.read_json(state)
        if known["pid"] in installer_process.find_processes_of_folder(folder):
            return int(known["port"]), False
        state.unlink()
    command = [sys.executable, "-c", _SERVER, str(folder), address, str(port), str(lifetime)]
    child = installer_process.start_logged_program(command, folder, {}, "server.log")
    end = time.monotonic() + limit
    while not state.exists():
        if child.poll() is not None:
            log = (folder / "server.log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise ProcessError(f"can't serve {folder} on {address}:{port}: {log[-1] if log else 'no reason logged'}")
        if time.monotonic() > end:
            raise WaitTimeout(f"the server of {folder} did not start within {limit:g} s")
        time.sleep(0.05)
    return int(files.read_json(state)["port"]), True


def own_address(towards: str) -> str:
    """Return the local address of connections to ``towards`` (host or host:port); no packet is sent."""
    host = towards.split("://")[-1].split("/")[0].rsplit(":", 1)[0] or "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, 443))
        except OSError as error:
            raise ProcessError(f"can't determine by which address {host} reaches this machine: {error}") from error
        return str(probe.getsockname()[0])

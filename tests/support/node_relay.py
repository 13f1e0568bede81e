"""Makes a server on this machine's loopback reachable from the pods of a real node, whose network is separate."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    cluster_lifecycle,
    instance_processes,
)
from cutting_proxy import CuttingProxy

#: Address of the node in its own network.
NODE = "10.144.0.1"
_CLONE_NEWNET = 0x40000000


class NodeRelay(CuttingProxy):
    """Forwards connections of pods to ``NODE:port`` to the same port of this machine's loopback."""

    def __init__(self, options: cluster_lifecycle.RehearsalOptions, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self._options = options
        self.port = port

    def __enter__(self) -> NodeRelay:
        with ThreadPoolExecutor(1) as pool:  # only that thread enters the network of the node
            self._listener = pool.submit(self._listen).result()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def _listen(self) -> socket.socket:
        (node,) = [
            one.pid
            for one in instance_processes.list_running_processes(self._options.instance.path)
            if one.name == "node"
        ]
        own = os.readlink("/proc/self/ns/net")
        inside = [f"/proc/{one}/ns/net" for one in processes.list_pids() if processes.parent_pid_of(one) == node]
        (space,) = [one for one in inside if os.readlink(one) != own]
        with open(space, "rb") as stream:
            if ctypes.CDLL(None, use_errno=True).setns(stream.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"setns {space}")
        return socket.create_server((NODE, self.port))

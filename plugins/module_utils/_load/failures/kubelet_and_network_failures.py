# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failures of a real node of a rehearsal cluster: its kubelet is killed, or the network between two of its pods is cut.

A killed kubelet does not run for a time; its containers run on. A node starts it again when a file of its data is gone
(component node). A small process, the guard, makes this file and removes it when the failure is over, or the load has
ended in any way.

For a cut, each of the two pods gets an entry in its table of neighbours by which the other one is at a hardware address
that nobody has: what they send to each other is lost without an error, and everything else arrives. Another guard makes
the entries, and removes them when the time is over, when its file is removed, or when the load has ended in any way.
They end with the pods at the latest.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import processes
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, ProcessError

from . import control_plane_failures, failure_guard_processes

if TYPE_CHECKING:
    from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal.instance_dir import (
        InstancePaths,
    )

#: Names of the process of a real node, of its kubelet, and of the interface of a pod.
_NODE, _KUBELET, _INTERFACE = "node", "kubelet", "eth0"
#: Seconds until the node has started its kubelet again.
_PATIENCE = 15.0

#: Argument: the file.
_KUBELET_GUARD = """
away = arguments[0]
open(away, "w").close()
try:
    while lasts():
        time.sleep(0.05)
finally:
    if os.path.exists(away):
        os.unlink(away)
    end_failure()
"""


def read_cluster_and_kubelet(server: str) -> dict[str, Any]:
    """Return the folder of the cluster and its kubelet, as they are recorded before the kubelet is killed."""
    instance = control_plane_failures.find_rehearsal_cluster(server)
    pid = _find_kubelet(instance) if instance is not None else 0
    if instance is None or not pid:
        raise InputError(f"no kubelet of the rehearsal cluster at {server} runs any more")
    return {"instance": str(instance.path), **processes.ProcessReference.of(pid).record()}


def inject_kubelet_outage(failure: Mapping[str, Any]) -> None:
    """Kill the kubelet; it starts again when the guard has ended. Raises ProcessError."""
    before = failure["before"]
    instance = control_plane_failures.instance_in_folder(Path(before["instance"]))
    away = _away_file(instance)
    failure_guard_processes.start_guard_and_await_failure(
        instance, _KUBELET, _KUBELET_GUARD, failure, [away], away.exists
    )
    kubelet = processes.ProcessReference(before["pid"], before["ticks"])
    if processes.terminate_processes([kubelet], 0.0, first=signal.SIGKILL):
        raise ProcessError(f"{failure['kind']}: the kubelet (pid {kubelet.pid}) does not end")


def undo_kubelet_outage(server: str, failure: Mapping[str, Any]) -> bool:
    """Have the guard end, and wait until a kubelet runs; return False if the guard has ended before.

    Raises:
        ProcessError: The node has started no kubelet in time.
    """
    instance = control_plane_failures.instance_if_recorded(
        control_plane_failures.find_rehearsal_cluster(server), failure
    )
    if instance is None:
        return False
    ended = failure_guard_processes.end_guard(instance, _KUBELET)
    away = _away_file(instance)
    left = away.exists()  # by a guard that was killed
    away.unlink(missing_ok=True)
    deadline = time.monotonic() + _PATIENCE
    while _NODE in control_plane_failures.running_processes(instance) and not _find_kubelet(instance):
        if time.monotonic() > deadline:
            raise ProcessError(
                f"{failure['kind']}: the node has started no kubelet again in {_PATIENCE:g} s; see"
                f" {instance.log_of(_NODE)}"
            )
        time.sleep(0.1)
    return ended or left


def _away_file(instance: InstancePaths) -> Path:
    """Return the file that keeps a node from starting its kubelet again, as component node names it."""
    return instance.path / "node" / "state" / "kubelet-away"


def _find_kubelet(instance: InstancePaths) -> int:
    """Return the pid of the kubelet of the real node, 0 without one."""
    node = control_plane_failures.running_processes(instance).get(_NODE)
    if node is None:
        return 0
    for pid in processes.list_pids():
        command = processes.command_line_of_process(pid)
        if command and Path(command[0]).name == _KUBELET and _grandparent_of(pid) == node.pid:
            return pid
    return 0


def _grandparent_of(pid: int) -> int | None:
    parent = processes.parent_pid_of(pid)
    return processes.parent_pid_of(parent) if parent else None


#: An address that is valid and locally administered, and that no interface has.
_NOBODY = "02:00:00:00:de:ad"
#: Timeout for removing what a killed guard has left, seconds.
_TIMEOUT = 10.0

#: Arguments: interface, hardware address, then pid and peer of each pod.
_NETWORK_GUARD = """
import ctypes, socket, struct
interface, nobody = arguments[0], bytes.fromhex(arguments[1].replace(":", ""))
pods = list(zip(map(int, arguments[2::2]), arguments[3::2]))
setns = ctypes.CDLL(None, use_errno=True).setns

def enter(place):
    if setns(place, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def neighbour(network, peer, command, flags):
    enter(network)
    body = struct.pack("=BBHiHBB", socket.AF_INET, 0, 0, socket.if_nametoindex(interface), 0x80, 0, 0)
    body += struct.pack("=HH4s", 8, 1, socket.inet_aton(peer)) + struct.pack("=HH6sxx", 10, 2, nobody)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.send(struct.pack("=IHHII", 16 + len(body), command, flags, 1, 0) + body)
        error = -struct.unpack_from("=i", link.recv(4096), 16)[0]
    if error:
        raise OSError(error, os.strerror(error))

networks = [os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for pid, _peer in pods]
users = f"/proc/{pods[0][0]}/ns/user"
if os.readlink(users) != os.readlink("/proc/self/ns/user"):
    enter(os.open(users, os.O_RDONLY))
try:
    for network, (_pid, peer) in zip(networks, pods):
        neighbour(network, peer, 28, 0x505)  # RTM_NEWNEIGH: request, acknowledged, made or replaced
    while lasts():
        time.sleep(0.05)
finally:
    for network, (_pid, peer) in zip(networks, pods):
        try:
            neighbour(network, peer, 29, 0x5)  # RTM_DELNEIGH
        except OSError as error:
            print(f"{peer}: {error}", file=sys.stderr)
    end_failure()
"""


class PodEnded(ProcessError):
    """A pod ended before the network between it and its peer was cut."""


def require_real_node(server: str, kind: str) -> None:
    """Raise InputError if no rehearsal cluster of ours at ``server`` has a real node."""
    instance = control_plane_failures.find_rehearsal_cluster(server)
    if instance is None or _NODE not in control_plane_failures.running_processes(instance):
        raise InputError(
            f"failures: {kind} is possible only on a real node of a rehearsal cluster that this user has started on"
            f" this machine, and {server} has none; set rehearsal_nodes_real, or use pod_killed"
        )


def read_cluster_folder(server: str) -> dict[str, Any]:
    """Return the folder of the cluster, as it is recorded before the network is cut."""
    instance = control_plane_failures.find_rehearsal_cluster(server)
    if instance is None:
        raise InputError(f"the rehearsal cluster at {server} does not run any more")
    return {"instance": str(instance.path)}


def inject_pod_network_cut(failure: Mapping[str, Any]) -> None:
    """Cut the network between the two pods of the row ``inject``. Raises ProcessError, PodEnded."""
    instance = control_plane_failures.instance_in_folder(Path(failure["before"]["instance"]))
    node = control_plane_failures.running_processes(instance).get(_NODE)
    if node is None:
        raise ProcessError("network_cut: the real node does not run any more")
    pairs = _pairs(node.pid, failure)
    _check_pods_run(failure, pairs)
    try:
        failure_guard_processes.start_guard_and_await_failure(
            instance,
            _guard_name(failure),
            _NETWORK_GUARD,
            failure,
            [_INTERFACE, _NOBODY, *sum(pairs, ())],
            lambda: all(_is_cut(pid, peer) for pid, peer in pairs),
        )
    except ProcessError:
        _check_pods_run(failure, _pairs(node.pid, failure))
        raise


def undo_pod_network_cut(server: str, failure: Mapping[str, Any]) -> bool:
    """Have the guard end, and wait for it; return False if it has ended before, or the cluster is another one.

    What a guard that was killed has left is removed. Raises ProcessError if the network is still cut.
    """
    instance = control_plane_failures.instance_if_recorded(
        control_plane_failures.find_rehearsal_cluster(server), failure
    )
    if instance is None:
        return False
    ended = failure_guard_processes.end_guard(instance, _guard_name(failure))
    node = control_plane_failures.running_processes(instance).get(_NODE)
    return (node is not None and _remove_left(node.pid, failure)) or ended


def _remove_left(node: int, failure: Mapping[str, Any]) -> bool:
    """Remove the entries that a killed guard has left; return False without any. Raises ProcessError, WaitTimeout."""
    left = [pair for pair in _pairs(node, failure) if _is_cut(*pair)]
    if not left:
        return False
    # Without its file, a guard removes the entries at once.
    command = failure_guard_processes.command_line_of_guard(
        _NETWORK_GUARD, os.devnull + "/none", 0, [_INTERFACE, _NOBODY, *sum(left, ())]
    )
    done = processes.run_to_completion(command, _TIMEOUT)
    if any(_is_cut(*pair) for pair in left):
        raise ProcessError(
            f"network_cut: the network of {failure['target']} is still cut, and its guard has ended: {done.last_line}"
        )
    return True


def _guard_name(failure: Mapping[str, Any]) -> str:
    """Return a name that no other cut has: one failure may cut the networks of several targets."""
    digest = hashlib.sha256(str(failure["target"]).encode()).hexdigest()[:12]
    return f"network-{int(failure['number'])}-{digest}"


def _pairs(node: int, failure: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return a process in the network of each pod that has not ended, and the address of the pod's peer."""
    addresses = [str(pod["address"]) for pod in failure["pods"]]
    pids = _processes_with_addresses(node, addresses)
    return [(pids[own], peer) for own, peer in zip(addresses, reversed(addresses), strict=True) if own in pids]


def _check_pods_run(failure: Mapping[str, Any], pairs: Sequence[tuple[int, str]]) -> None:
    peers = [peer for _pid, peer in pairs]
    for pod, peer in zip(failure["pods"], reversed(failure["pods"]), strict=True):
        if peer["address"] not in peers:
            raise PodEnded(f"no process of the node has the address {pod['address']} of pod {pod['name']} any more")


def _processes_with_addresses(node: int, addresses: Sequence[str]) -> dict[str, int]:
    """Return address -> a process in whose network it is, of the processes below ``node``."""
    children: dict[int, list[int]] = {}
    for pid in processes.list_pids():
        children.setdefault(processes.parent_pid_of(pid) or 0, []).append(pid)
    found: dict[str, int] = {}
    waiting = [node]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        local = _read(pid, "fib_trie")
        for address in addresses:
            if re.search(rf"\|-- {re.escape(address)}\n\s+/32 host LOCAL", local):
                found[address] = pid
    return found


def _is_cut(pid: int, peer: str) -> bool:
    entries = (line.split() for line in _read(pid, "arp").splitlines())
    return any(entry[0] == peer and _NOBODY in entry for entry in entries if entry)


def _read(pid: int, name: str) -> str:
    """Return a file of the network of a process; nothing if the process has ended."""
    try:
        return Path(f"/proc/{pid}/net/{name}").read_text(encoding="ascii")
    except OSError:
        return ""

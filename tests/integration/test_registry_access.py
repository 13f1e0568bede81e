"""Access to a registry is given and put back exactly, on a real API server with a simulated Machine Config Operator."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import machine_config_simulator as simulator
import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import (
    ApiError,
    InputError,
    OwnershipError,
    ProcessError,
    WaitTimeout,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.client import MERGE_PATCH, Client
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack import registry_access
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.registry_access import RegistryAccess

CANARY = "canary-9b21-registry"
BEFORE = '{ "auths" : {\n  "cloud.openshift.com": {"auth": "b2xk",  "email": "a@b.c"}\n}  }\n'
TOKEN = json.dumps({"auths": {"quay.io/pre": {"auth": CANARY}}})
MIRRORS = [
    {"source": "registry.example/rhoai", "mirrors": ["quay.io/pre/rhoai"], "by": "digest"},
    {"source": "registry.example/tags", "mirrors": ["quay.io/pre/tags"], "by": "tag"},
]
RUN = "r-registry"


def settle(client: Client, kinds: list[tuple[str, str]], served: bool) -> None:
    """Wait until these kinds are served, or no longer."""
    deadline = time.monotonic() + 120
    for version, kind in kinds:
        while True:
            try:
                client.list(client.kind(version, kind))
                there = True
            except (InputError, ApiError):
                there = False
            if there == served:
                break
            assert time.monotonic() < deadline
            time.sleep(0.1)


def world(client: Client, mirror_kinds: list[tuple[str, str]]) -> Iterator[simulator.MachineConfigSimulator]:
    kinds = [(registry_access.POOL_VERSION, "MachineConfigPool"), *mirror_kinds]
    definitions = client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    made = [simulator.crd(*one) for one in kinds]
    for one in made:
        client.create(one)
    settle(client, kinds, True)
    namespace = registry_access.NAMESPACE
    client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    metadata = {"name": registry_access.NAME, "namespace": namespace}
    data = {registry_access.KEY: base64.b64encode(BEFORE.encode()).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "metadata": metadata}
    client.create({**secret, "data": data})
    pool = {"apiVersion": registry_access.POOL_VERSION, "kind": "MachineConfigPool"}
    client.create({**pool, "metadata": {"name": simulator.POOL}, "spec": {"configuration": {"name": "first"}}})
    machine = simulator.MachineConfigSimulator(client, mirror_kinds)
    try:
        while not machine.current():
            machine.step()
        yield machine
    finally:
        for one in made:
            client.delete(definitions, one["metadata"]["name"])
        client.delete(client.kind("v1", "Namespace"), namespace)
        settle(client, kinds, False)
        deadline = time.monotonic() + 120
        while client.get(client.kind("v1", "Namespace"), namespace) is not None:
            assert time.monotonic() < deadline
            time.sleep(0.1)


class Observed:
    """A client each of whose looks at the pools brings their machines a step on: no test depends on time."""

    def __init__(self, client: Client, operator: simulator.MachineConfigSimulator) -> None:
        self._client, self._operator = client, operator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def list(self, kind: Any, *given: Any, **more: Any) -> Any:
        if kind.kind == registry_access.POOL_KIND:
            self._operator.step()
        return self._client.list(kind, *given, **more)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_access, "_POLL_INTERVAL", 0.02)


@pytest.fixture
def operator(client: Client) -> Iterator[simulator.MachineConfigSimulator]:
    yield from world(client, simulator.CURRENT)


def access(
    client: Any, operator: Any, folder: Path, said: list[str] | None = None, timeout: float = 240
) -> RegistryAccess:
    say = said.append if said is not None else lambda _text: None
    return RegistryAccess(Observed(client, operator), folder / registry_access.FILE, RUN, timeout, 0, say)  # type: ignore[arg-type]


def content(client: Client) -> str:
    found = client.get(client.kind("v1", "Secret"), registry_access.NAME, registry_access.NAMESPACE)
    return base64.b64decode((found or {})["data"][registry_access.KEY]).decode()


def write(client: Client, text: str) -> None:
    path = client.kind("v1", "Secret").path(registry_access.NAMESPACE, registry_access.NAME)
    data = {registry_access.KEY: base64.b64encode(text.encode()).decode()}
    client.request("PATCH", path, {"data": data}, content_type=MERGE_PATCH)


def mirrors(client: Client) -> list[str]:
    found = [client.list(client.kind(*one))[0] for one in simulator.CURRENT]
    return [one["metadata"]["name"] for items in found for one in items]


def test_access_is_given_to_all_machines_and_put_back_exactly(client: Client, operator: Any, tmp_path: Path) -> None:
    said: list[str] = []
    one = access(client, operator, tmp_path, said)
    assert one.give(TOKEN, MIRRORS, check=True) and content(client) == BEFORE
    assert one.give(TOKEN, MIRRORS)
    assert operator.current(), "the machines have it"
    assert json.loads(content(client))["auths"] == {**json.loads(BEFORE)["auths"], **json.loads(TOKEN)["auths"]}
    assert mirrors(client) == [f"seatrial-{RUN}"] * 2
    assert not one.give(TOKEN, MIRRORS), "a second time changes nothing"
    assert CANARY not in (tmp_path / registry_access.FILE).read_text() + "".join(said)
    assert access(client, operator, tmp_path).back()
    assert operator.current()
    assert content(client) == BEFORE and mirrors(client) == []
    assert not access(client, operator, tmp_path).back() and not (tmp_path / registry_access.FILE).exists()


def test_what_somebody_else_changed_meanwhile_is_named_and_left(client: Client, operator: Any, tmp_path: Path) -> None:
    access(client, operator, tmp_path).give(TOKEN, MIRRORS)
    changed = json.loads(content(client))
    changed["auths"]["registry.colleague"] = {"auth": "x"}
    write(client, json.dumps(changed))
    kind = client.kind(*simulator.CURRENT[0])
    path = kind.path("", f"seatrial-{RUN}")
    client.request("PATCH", path, {"spec": {"imageDigestMirrors": []}}, content_type=MERGE_PATCH)
    with pytest.raises(OwnershipError) as caught:
        access(client, operator, tmp_path).back()
    text = str(caught.value)
    assert "somebody changed ImageDigestMirrorSet seatrial-r-registry" in text
    assert "pull-secret (added registry.colleague); it still has this run's quay.io/pre" in text
    assert json.loads(content(client)) == changed and mirrors(client) == [f"seatrial-{RUN}"], "the other one is gone"
    assert (tmp_path / registry_access.FILE).exists(), "to be repeated when this is settled"
    del changed["auths"]["quay.io/pre"]
    write(client, json.dumps(changed))
    client.delete(kind, f"seatrial-{RUN}")
    assert not access(client, operator, tmp_path).back() and not (tmp_path / registry_access.FILE).exists()
    assert json.loads(content(client)) == changed, "what the colleague added stays"


def test_pools_that_cannot_take_over_a_change_are_named_with_the_reason(
    client: Client, operator: Any, tmp_path: Path
) -> None:
    path = client.kind(registry_access.POOL_VERSION, registry_access.POOL_KIND).path("", simulator.POOL)
    client.request("PATCH", path, {"spec": {"paused": True}}, content_type=MERGE_PATCH)
    with pytest.raises(ProcessError, match=r"MachineConfigPool worker is paused: its machines would not take over"):
        access(client, operator, tmp_path).give(TOKEN, MIRRORS)
    assert content(client) == BEFORE and not (tmp_path / registry_access.FILE).exists(), "before anything is touched"
    client.request("PATCH", path, {"spec": {"paused": None}}, content_type=MERGE_PATCH)
    operator.steps = 10_000
    with pytest.raises(WaitTimeout, match=r"after 1 s still waiting for MachineConfigPool worker \(1 of 3 machines"):
        access(client, operator, tmp_path, timeout=1).give(TOKEN, [])
    operator.degraded = "node n-1: no space left"
    with pytest.raises(ProcessError, match=r"MachineConfigPool worker is degraded: node n-1: no space left"):
        access(client, operator, tmp_path).back()
    assert content(client) == BEFORE and (tmp_path / registry_access.FILE).exists(), "put back, but not taken over"
    operator.degraded, operator.steps, operator.left = "", 3, 3
    assert not access(client, operator, tmp_path).back() and operator.current()
    assert not (tmp_path / registry_access.FILE).exists()


def test_a_repeated_call_awaits_what_an_interrupted_one_changed(client: Client, operator: Any, tmp_path: Path) -> None:
    operator.steps = 10_000
    with pytest.raises(WaitTimeout):
        access(client, operator, tmp_path, timeout=1).give(TOKEN, [])
    operator.steps = operator.left = 3
    assert not access(client, operator, tmp_path).give(TOKEN, [])
    assert operator.current()
    access(client, operator, tmp_path).back()


def test_a_cluster_with_policies_gets_another_one(client: Client, operator: Any, tmp_path: Path) -> None:
    definitions = client.kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    made = simulator.crd(*simulator.OLDER[0])
    client.create(made)
    try:
        settle(client, simulator.OLDER, True)
        version, kind = simulator.OLDER[0]
        theirs = {"apiVersion": version, "kind": kind, "metadata": {"name": "theirs"}, "spec": {}}
        client.create(theirs)
        access(client, operator, tmp_path).give("", MIRRORS[:1])
        found = client.list(client.kind(version, kind))[0]
        assert [one["metadata"]["name"] for one in found] == [f"seatrial-{RUN}", "theirs"]
        access(client, operator, tmp_path).back()
        assert [one["metadata"]["name"] for one in client.list(client.kind(version, kind))[0]] == ["theirs"]
    finally:
        client.delete(definitions, made["metadata"]["name"])
        settle(client, simulator.OLDER, False)


class Killed(BaseException):
    """The process ends here."""


class Mortal:
    """A client whose process is killed before or after its n-th write reached the server."""

    def __init__(self, client: Client, writes: int, after: bool) -> None:
        self._client, self._left, self._after = client, writes, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if name not in ("create", "request", "delete", "delete_seen"):
            return found

        def mortal(*given: Any, **more: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            result = found(*given, **more)
            if self._left == 0:
                raise Killed
            return result

        return mortal


@pytest.mark.parametrize("after", [False, True], ids=["before the write", "after the write"])
def test_a_kill_at_any_write_leaves_everything_as_it_was(
    client: Client, operator: Any, tmp_path: Path, after: bool
) -> None:
    kills = 0
    for giving, restoring in ((1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (4, 1), (4, 2), (4, 3)):
        folder = tmp_path / f"{giving}-{restoring}"
        folder.mkdir()
        for writes, act in ((giving, lambda one: one.give(TOKEN, MIRRORS)), (restoring, RegistryAccess.back)):
            try:
                act(access(Mortal(client, writes, after), operator, folder))
            except Killed:
                kills += 1
        access(client, operator, folder).back()
        assert content(client) == BEFORE and mirrors(client) == []
    assert kills >= 10


def test_older_clusters_get_a_policy_that_knows_no_tags(client: Client, tmp_path: Path) -> None:
    for operator in world(client, simulator.OLDER):
        with pytest.raises(InputError, match=r"registry.example/tags by tag: this cluster uses Image"):
            access(client, operator, tmp_path).give(TOKEN, MIRRORS)
        assert content(client) == BEFORE and not (tmp_path / registry_access.FILE).exists()
        access(client, operator, tmp_path).give("", MIRRORS[:1])
        found = client.list(client.kind(*simulator.OLDER[0]))[0]
        assert [one["spec"]["repositoryDigestMirrors"][0]["source"] for one in found] == ["registry.example/rhoai"]
        access(client, operator, tmp_path).back()
        assert client.list(client.kind(*simulator.OLDER[0]))[0] == []


def test_a_cluster_that_is_no_openshift_is_refused(client: Client, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="only be added to a cluster of OpenShift"):
        RegistryAccess(client, tmp_path / registry_access.FILE, RUN, 1, 0, lambda _text: None).give(TOKEN, [])

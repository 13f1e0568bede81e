# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A clean-up that could not look at what the run has made does not say that it is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import ApiError, SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._care import run_cleanup
from ansible_collections.perfscale.seatrial.plugins.module_utils._care.label_sweep import (
    RunCleanup,
    verify_nothing_left,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube.discovery import ServedKind

VERBS = frozenset({"list", "delete"})
KINDS = [ServedKind("v1", name, f"{name.lower()}s", True, VERBS) for name in ("ConfigMap", "Secret")]


class Server:
    """An API server that refuses some lists. refused: (kind, namespace) -> status; objects: the same -> names."""

    def __init__(self, refused: dict[tuple[str, str], int], objects: dict[tuple[str, str], list[str]]) -> None:
        self.refused, self.objects = refused, objects

    def kinds(self) -> list[ServedKind]:
        return KINDS

    def list(
        self, kind: ServedKind, namespace: str = "", *_more: Any, **_options: Any
    ) -> tuple[list[dict[str, Any]], str]:
        if (kind.kind, namespace) in self.refused:
            raise ApiError(f"{kind.kind} can't be listed", self.refused[kind.kind, namespace])
        names = self.objects.get((kind.kind, namespace), [])
        return [{"metadata": {"name": one, "namespace": namespace, "uid": one}} for one in names], ""


def look(refused: dict, objects: dict, known: dict[str, set[str]]) -> Any:
    return verify_nothing_left(RunCleanup(Server(refused, objects), "t1121-abcdef", created=known))  # type: ignore[arg-type]


def test_a_kind_that_can_not_be_listed_is_noted_when_the_run_made_none_of_it() -> None:
    assert look({("Secret", ""): 403}, {}, {"ConfigMap": {"here"}}).unlisted == ["Secret (403)"]


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_kind_that_the_run_made_objects_of_must_be_seen(status: int) -> None:
    with pytest.raises(ApiError, match="Secret can't be listed"):
        look({("Secret", ""): status}, {}, {"Secret": {""}})


def test_who_may_not_list_everywhere_looks_where_the_run_has_made_something() -> None:
    refused = {("Secret", ""): 403}
    assert look(refused, {}, {"Secret": {"", "here"}}).unlisted == []
    with pytest.raises(SeatrialError, match="Secret here/mine"):
        look(refused, {("Secret", "here"): ["mine"]}, {"Secret": {"here", "there"}})
    with pytest.raises(ApiError):
        look({**refused, ("Secret", "here"): 403}, {}, {"Secret": {"here"}})


def test_what_a_run_has_made_is_read_from_its_manifests_and_plans(tmp_path: Path) -> None:
    source = tmp_path / "004__fine_tuning__prepare" / "src"
    source.mkdir(parents=True)
    (source / "a.yml").write_text(
        "---\nkind: Namespace\nmetadata: {name: x}\n---\nkind: Secret\nmetadata: {namespace: x}\n", encoding="utf-8"
    )
    point = tmp_path / "points" / "001"
    point.mkdir(parents=True)
    header = {"type": "header", "templates": [{"kind": "PyTorchJob", "namespace": "x"}]}
    (point / "plan.jsonl").write_text(f"{json.dumps(header)}\n", encoding="utf-8")
    assert run_cleanup.read_created_kinds(tmp_path) == {"Namespace": {""}, "Secret": {"x"}, "PyTorchJob": {"x"}}
    assert run_cleanup.read_created_kinds(tmp_path / "none") == {}

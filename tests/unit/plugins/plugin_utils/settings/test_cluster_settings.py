# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From settings and inventory to the clusters of a run and their first records."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters import clusters_of_run
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings import cluster_settings, settings_catalogue

KNOWN = settings_catalogue.load_catalogue(Path(__file__).parents[5])


class HostVars(dict[str, Any]):
    """As Ansible's: raw_get() returns the values before templating."""

    def raw_get(self, name: str) -> Any:
        return self[name]


def test_a_host_with_settings_of_its_own_has_its_own_cluster_in_declared_types() -> None:
    hosts = HostVars(driver={"cluster_ipi_compute_count": "1", "cluster_pull_secret": "hidden"})
    given = {"cluster_provider": "openshift_ipi", "cluster_ipi_compute_count": "4", "results_template": "/x"}
    measured, driving = cluster_settings.cluster_targets(KNOWN, given, hosts, {})
    assert measured.chosen == {"cluster_provider": "openshift_ipi", "cluster_ipi_compute_count": 4}
    assert driving.hosts == ("driver",) and driving.chosen["cluster_ipi_compute_count"] == 1
    assert "cluster_pull_secret" not in driving.chosen


def test_a_record_has_owner_and_expiry_before_the_cluster_is_acquired() -> None:
    given = {"cluster_provider": "managed", "cluster_lifetime": "2h", "cluster_purpose": "a test"}
    [target] = cluster_settings.cluster_targets(KNOWN, given, HostVars(), {})
    [record] = cluster_settings.initial_cluster_records([target], "t1121-abcdef")
    taken, expires = (datetime.fromisoformat(record[name]) for name in ("taken", "expires"))
    assert (expires - taken).total_seconds() == 7200
    assert (record["name"], record["owner"], record["purpose"]) == ("t1121-abcdef", "t1121-abcdef", "a test")
    described = cluster_settings.result_of_cluster_targets(target, record, {"state": "acquired"})
    assert described["acquired"] and {"acquire", "finish", "release"} <= set(described["steps"])
    [other] = cluster_settings.cluster_targets(KNOWN, {"cluster_lifetime": "soon"}, HostVars(), {})
    with pytest.raises(InputError, match="cluster_lifetime"):
        cluster_settings.initial_cluster_records([other], "t1121-abcdef")


def test_the_standing_rehearsal_cluster_is_used_only_if_the_command_line_names_it() -> None:
    variables = {"rehearsal_name": "default", "cluster_provider": "rehearsal"}
    for extra, expected in (({}, None), ({"rehearsal_name": "default"}, "default")):
        assert (
            cluster_settings.cluster_settings_of_play(KNOWN, variables, lambda one: one, extra).get("rehearsal_name")
            == expected
        )


def kubeconfig(path: Path, host: str) -> str:
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: lab
contexts: [{{name: lab, context: {{cluster: lab, user: lab}}}}]
clusters: [{{name: lab, cluster: {{server: "https://{host}:6443"}}}}]
users: [{{name: lab, user: {{token: t}}}}]
""",
        encoding="utf-8",
    )
    return str(path)


def test_a_lost_kubeconfig_is_replaced_by_one_of_the_same_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    record = {"provider": "existing", "state": "acquired", "kubeconfig": "/gone", "api_host": "api.lab.example"}
    clusters_of_run.update_host_records(tmp_path, ["sutest", "driver"], record)
    warnings: list[str] = []

    def replace(extra: dict[str, str], **run: str) -> tuple[dict[str, dict[str, Any]], bool]:
        given = cluster_settings.create_kubeconfig_settings_lookup(run, extra, lambda one: one)
        return clusters_of_run.replace_recorded_access(tmp_path, given, warnings.append)

    assert replace({})[1] is False and "no longer exists (/gone)" in warnings[0]
    other, same = kubeconfig(tmp_path / "other", "else.example"), kubeconfig(tmp_path / "same", "api.lab.example")
    with pytest.raises(InputError, match="leads to https://else.example"):
        replace({"cluster_kubeconfig": other})
    clusters, changed = replace({}, cluster_kubeconfig=same)
    assert changed and [one["kubeconfig"] for one in clusters.values()] == [same, same]


def test_a_lost_kubeconfig_of_a_hub_is_replaced(tmp_path: Path) -> None:
    data = {"hub": "/gone", "namespace": "pools"}
    clusters_of_run.update_host_records(
        tmp_path, ["sutest"], {"provider": "hive_pool", "state": "acquired", "provider_data": data}
    )
    given = cluster_settings.create_kubeconfig_settings_lookup({"cluster_hive_kubeconfig": "/hub"}, {}, lambda one: one)
    clusters, changed = clusters_of_run.replace_recorded_access(tmp_path, given, lambda _text: None)
    assert changed and clusters["sutest"]["provider_data"] == {"hub": "/hub", "namespace": "pools"}

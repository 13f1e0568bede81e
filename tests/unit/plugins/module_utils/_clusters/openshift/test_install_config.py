# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""install-config.yaml from settings, checked against the documented fields."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.openshift import install_config

IPI: dict[str, Any] = {"cluster_base_domain": "perf.example.com", "cluster_ipi_region": "us-east-2"}
AGENT: dict[str, Any] = {"cluster_base_domain": "perf.example.com", "cluster_agent_machine_network": "198.18.0.0/24"}
SECRET = '{"auths": {}}'


def test_a_cluster_on_a_cloud_is_as_the_settings_say() -> None:
    settings = {
        **IPI,
        "cluster_fips": True,
        "cluster_ipi_zones": ["us-east-2a"],
        "cluster_ipi_compute_type": "g5.4xlarge",
        "cluster_ipi_compute_count": 5,
        "cluster_ipi_root_volume_gib": 200,
        "cluster_ipi_install_config": {
            "controlPlane": {"replicas": 5},
            "networking": {"machineNetwork": [{"cidr": "10.8.0.0/16"}]},
            "platform": {"aws": {"lbType": "NLB"}},
            "publish": "Internal",
        },
    }
    config = install_config.add_secrets(
        install_config.cloud_install_config(settings, "perf", {"Project": "x"}), SECRET, "ssh-ed25519 A"
    )
    assert config["fips"] is True and config["publish"] == "Internal"
    assert config["controlPlane"]["replicas"] == 5 and config["controlPlane"]["name"] == "master"
    assert config["networking"]["machineNetwork"] == [{"cidr": "10.8.0.0/16"}]
    worker = config["compute"][0]
    assert worker["replicas"] == 5 and worker["platform"]["aws"] == {
        "type": "g5.4xlarge",
        "zones": ["us-east-2a"],
        "rootVolume": {"size": 200, "type": "gp3"},
    }
    assert config["platform"]["aws"]["userTags"] == {"Project": "x"} and config["platform"]["aws"]["lbType"] == "NLB"
    assert install_config.hide_secrets(config)["pullSecret"] == "<secret>"


def test_a_single_node_has_one_machine() -> None:
    config = install_config.cloud_install_config({**IPI, "cluster_ipi_variant": "single_node"}, "perf", {})
    assert config["controlPlane"]["replicas"] == 1 and config["compute"][0]["replicas"] == 0


def test_bare_metal_has_virtual_addresses_unless_it_is_a_single_node() -> None:
    with pytest.raises(InputError, match="cluster_agent_api_vip is required"):
        install_config.bare_metal_install_config(AGENT, "perf", 3, 2)
    vips = {"cluster_agent_api_vip": "198.18.0.5", "cluster_agent_ingress_vip": "198.18.0.6"}
    config = install_config.add_secrets(
        install_config.bare_metal_install_config({**AGENT, **vips}, "perf", 3, 2), SECRET, ""
    )
    assert config["platform"] == {"baremetal": {"apiVIPs": ["198.18.0.5"], "ingressVIPs": ["198.18.0.6"]}}
    single = install_config.add_secrets(install_config.bare_metal_install_config(AGENT, "perf", 1, 0), SECRET, "")
    assert single["platform"] == {"none": {}}
    with pytest.raises(InputError, match="cluster_agent_api_vip: 10.0.0.1 is not in"):
        install_config.bare_metal_install_config({**AGENT, **vips, "cluster_agent_api_vip": "10.0.0.1"}, "perf", 3, 2)


@pytest.mark.parametrize(
    ("settings", "name", "message"),
    [
        ({**IPI, "cluster_ipi_region": ""}, "perf", "cluster_ipi_region is required"),
        (IPI, "Not_A_Name", "'Not_A_Name' is not a cluster name"),
    ],
)
def test_what_can_not_be_is_refused(settings: dict, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        install_config.cloud_install_config(settings, name, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseDomian": "x"}, "baseDomian is not a documented field .did you mean 'baseDomain'"),
        ({"fips": "yes"}, "fips: a boolean is required, got 'yes'"),
        ({"publish": "external"}, "publish: 'external' is not allowed .did you mean 'External'"),
        ({"compute": [{"name": "worker", "replicas": True}]}, r"compute\[0\].replicas: a number is required"),
        ({"compute": {}}, "compute: a list is required"),
        ({"platform": {"aws": {}}}, "platform.aws: region is missing"),
        ({"networking": []}, "networking: a dictionary is required"),
    ],
)
def test_a_field_is_refused_by_its_place(change: dict, message: str) -> None:
    config = {**install_config.cloud_install_config(IPI, "perf", {}), "pullSecret": SECRET, **change}
    with pytest.raises(InputError, match=message):
        install_config.check_field_types(config, install_config.INSTALL_CONFIG, "install-config.yaml")


def test_tags_say_whose_it_is_and_until_when_and_what_is_given_comes_first() -> None:
    settings = {"cluster_lifetime": "6h", "cluster_tags": {"TicketId": 4711, "Owner": "team"}}
    found = install_config.cloud_resource_tags(settings, "2026-11-21T18:00:00.000Z", "run")
    assert found == {
        "Owner": "team",
        "TimeToLive": "6h",
        "TicketId": "4711",
        "ExpirationDate": "2026-11-21T18:00:00.000Z",
    }

"""Each version of OpenShift AI has its API, channel, components and prerequisites; what it does not have is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._stack.olm import operator_specs
from ansible_collections.perfscale.seatrial.plugins.plugin_utils.settings.rhoai_release import (
    RhoaiRequest,
    release_facts_and_checks,
)


def described(version: str, **more: Any) -> dict[str, Any]:
    found = release_facts_and_checks(RhoaiRequest(version, **more))
    assert found["checks"] == []
    return found


def refused(version: str, **more: Any) -> tuple[str, str]:
    check = release_facts_and_checks(RhoaiRequest(version, **more))["checks"][0]
    return check["setting"], check["because"]


def packages(found: dict[str, Any]) -> list[str]:
    return [each["package"] for each in found["prerequisites"]]


def test_version_3_is_written_as_v2_and_trains_with_the_jobset_operator() -> None:
    found = described("3", components=["dashboard", "trainer"])
    assert (found["api_version"], found["channel"], found["version"], found["major"]) == ("v2", "stable-3.x", "", "3")
    assert found["components"] == ["dashboard=Managed", "trainer=Managed"]
    assert packages(found) == ["openshift-cert-manager-operator", "job-set"]
    # The module takes them as they are, and an operator of somebody else may follow any channel.
    assert all(each.channel and each.any_channel for each in operator_specs.read_operators(found["prerequisites"]))


def test_version_2_is_written_as_v1_and_embeds_kueue() -> None:
    found = described("2", components=["trainingoperator", "kueue"])
    assert (found["api_version"], found["channel"], packages(found)) == ("v1", "stable-2.25", [])
    assert packages(described("2", components=["kueue=Unmanaged"])) == [
        "openshift-cert-manager-operator",
        "kueue-operator",
    ]


def test_a_complete_version_is_installed_exactly_and_decides_the_rest() -> None:
    found = described("2.25.11", product="odh")
    assert (found["version"], found["major"], found["channel"]) == ("2.25.11", "2", "fast")
    assert described("3", channel="beta")["channel"] == "beta"


def test_each_prerequisite_is_installed_once_in_the_requested_channel() -> None:
    asked = {"kueue-operator": "stable-v1.4"}
    found = described("3", components=["trainer", "kueue=Unmanaged", "ray"], prerequisite_channels=asked)
    assert packages(found) == ["openshift-cert-manager-operator", "job-set", "kueue-operator"]
    assert [each["channel"] for each in found["prerequisites"]] == ["stable-v1", "stable-v1.0", "stable-v1.4"]
    json.dumps(found)  # plain data, for facts


def test_an_optional_operator_comes_with_those_that_it_needs() -> None:
    found = described("3", components=["kserve"], optional_operators=["leader-worker-set"])
    assert packages(found) == ["openshift-cert-manager-operator", "leader-worker-set"]
    assert operator_specs.read_operators(found["prerequisites"])[1].channel == "stable-v1.0"


@pytest.mark.parametrize(
    ("version", "asked", "setting", "message"),
    [
        ("4", {}, "rhoai_version", "it must be 2 or 3, or a complete version such as 3.5.0"),
        ("2.25", {}, "rhoai_version", "rhoai_channel=stable-2.25"),
        (
            "3",
            {"components": ["kueue"]},
            "rhoai_components",
            "kueue can't be Managed in version 3 (rhoai_version) (use kueue=U",
        ),
        ("3", {"components": ["datasciencepipelines"]}, "rhoai_components", "it has aipipelines instead"),
        ("3", {"components": ["codeflare"]}, "rhoai_components", "'codeflare': version 3 (rhoai_version) has no such"),
        ("3.5.0", {"components": ["modelmeshserving"]}, "rhoai_components", "it has kserve instead"),
        ("2", {"components": ["trainer"]}, "rhoai_components", "it has trainingoperator instead"),
        ("2", {"components": ["dashbord"]}, "rhoai_components", "did you mean 'dashboard'?"),
        (
            "3",
            {"settings": {"spec.components.kserve.serving.managementState": "Managed"}},
            "rhoai_settings",
            "there is no Serverless mode",
        ),
        ("3", {"settings": {"components.kueue.managementState": "Managed"}}, "rhoai_settings", "use kueue=Unmanaged"),
        (
            "3",
            {"components": ["ray"], "settings": {"components.trainer.managementState": "Managed"}},
            "rhoai_settings",
            "set rhoai_components=trainer=Managed, which also installs what it needs",
        ),
        ("3", {"settings": {"components.trainr.x": 1}}, "rhoai_settings", "did you mean 'trainer'?"),
        ("3", {"settings": {"components": {"trainr": {"x": 1}}}}, "rhoai_settings", "did you mean 'trainer'?"),
        ("3", {"settings": {"spec": {"components.kserve": {"serving": {"x": 1}}}}}, "rhoai_settings", "no Serverless"),
        (
            "3",
            {"settings": {"components.kueue": {"managementState": "Managed"}}},
            "rhoai_settings",
            "use kueue=Unmanaged",
        ),
        ("3", {"serverless": True}, "rhoai_serverless", "rhoai_version=2 has it"),
        ("3", {"stack": ["rhoai", "service_mesh"]}, "stack", "no longer uses service_mesh"),
        ("2", {"optional_operators": ["leader-worker-set"]}, "rhoai_optional_operators", "it has none"),
        (
            "3",
            {"optional_operators": ["leader-worker"]},
            "rhoai_optional_operators",
            "did you mean 'leader-worker-set'?",
        ),
        ("3", {"prerequisite_channels": {"jobset": "x"}}, "rhoai_prerequisite_channels", "did you mean 'job-set'?"),
    ],
)
def test_what_a_version_does_not_have_is_refused_with_the_nearest_right_value(
    version: str, asked: dict[str, Any], setting: str, message: str
) -> None:
    name, why = refused(version, **asked)
    assert name == setting and message in why, why


def test_settings_of_components_and_of_the_rest_are_permitted() -> None:
    asked = {"components.kserve.nim.managementState": "Removed", "components.kueue.autoCreateQueues": True, "other": 1}
    assert described("3", settings=asked, components=["kserve"])["components"] == ["kserve=Managed"]
    described("2", settings={"components.kserve.serving.managementState": "Removed"})

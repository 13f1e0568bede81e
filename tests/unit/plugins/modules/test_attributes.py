"""What the modules say of check mode and diff is what they do."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

ROOT = Path(__file__).parents[4]
MODULES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "plugins" / "modules").glob("*.py"))}
WITH_MAIN = [name for name, text in MODULES.items() if "def main()" in text]
PACKAGE = "ansible_collections.perfscale.seatrial.plugins"


def attributes(name: str) -> dict[str, dict[str, Any]]:
    """Return the attributes of a module, by name."""
    text = re.search(r'^DOCUMENTATION = r"""\n(.*?)^"""', MODULES[name], re.MULTILINE | re.DOTALL)
    assert text, name
    found: dict[str, dict[str, Any]] = yaml.safe_load(text[1])["attributes"]
    return found


class Constructed(Exception):
    """The module has called AnsibleModule."""


@pytest.mark.parametrize("name", WITH_MAIN)
def test_a_module_runs_in_check_mode_if_and_only_if_it_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"{PACKAGE}.modules.{name}")
    given: dict[str, Any] = {}

    def constructed(**options: Any) -> None:
        given.update(options)
        raise Constructed

    monkeypatch.setattr(module, "AnsibleModule", constructed)
    with pytest.raises(Constructed):
        module.main()
    assert given.get("supports_check_mode", False) == (attributes(name)["check_mode"]["support"] != "none")


@pytest.mark.parametrize("name", [name for name in MODULES if name not in WITH_MAIN])
def test_an_action_that_writes_in_check_mode_says_so(name: str) -> None:
    text = (ROOT / "plugins" / "action" / f"{name}.py").read_text(encoding="utf-8")
    writes = '"changed": True' in text and "check_mode" not in text
    assert (attributes(name)["check_mode"]["support"] == "full") <= (not writes)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_without_diff_says_why(name: str) -> None:
    diff = attributes(name)["diff_mode"]
    assert diff["support"] == "full" or diff.get("details")


@pytest.mark.parametrize("name", [name for name in MODULES if name.endswith("_info")])
def test_a_module_that_only_reads_has_no_diff(name: str) -> None:
    assert attributes(name)["diff_mode"]["support"] == "N/A"


@pytest.mark.parametrize(
    "name", [name for name in MODULES if attributes(name)["diff_mode"]["support"] in ("full", "partial")]
)
def test_a_module_that_says_that_it_has_a_diff_returns_one(name: str) -> None:
    module = importlib.import_module(f"{PACKAGE}.modules.{name}")
    used = {inspect.getmodule(one) for one in vars(module).values()} | {module}
    used |= {one for its in filter(None, used) for one in vars(its).values() if inspect.ismodule(one)}
    assert any('"diff"' in inspect.getsource(one) for one in used if one and "seatrial" in one.__name__)


def result_of(name: str, arguments: dict[str, Any], check: bool = False) -> dict[str, Any]:
    """Run a module in this process and return its result."""
    module = importlib.import_module(f"{PACKAGE}.modules.{name}")
    output = io.StringIO()
    given = {**arguments, "_ansible_check_mode": check}
    with patch_module_args(given), contextlib.redirect_stdout(output), pytest.raises(SystemExit):
        module.main()
    found: dict[str, Any] = json.loads(output.getvalue().splitlines()[-1])
    return found


def test_the_configuration_of_an_installer_is_written_once_and_its_diff_shows_no_secret(tmp_path: Path) -> None:
    arguments = {
        "state": "configured",
        "provider": "openshift_ipi",
        "name": "t1121-k3f9xa",
        "settings": {
            "cluster_base_domain": "perf.example.com",
            "cluster_ipi_platform": "aws",
            "cluster_ipi_region": "us-east-2",
            "cluster_ipi_compute_count": 2,
        },
        "pull_secret": json.dumps({"auths": {"registry.example.com": {"auth": "Y2FuYXJ5"}}}),
        "install_dir": str(tmp_path / "cluster"),
    }
    predicted = result_of("openshift_install", arguments, check=True)
    assert predicted["changed"] and predicted["diff"]["before"] == {} and not list(tmp_path.iterdir())
    written = result_of("openshift_install", arguments)
    assert written["diff"] == predicted["diff"] and "Y2FuYXJ5" not in json.dumps(written)
    assert not result_of("openshift_install", arguments)["changed"]
    arguments["settings"] = {**arguments["settings"], "cluster_ipi_compute_count": 3}
    diff = result_of("openshift_install", arguments)["diff"]
    before, after = diff["before"]["install-config.yaml"], diff["after"]["install-config.yaml"]
    assert [one["compute"][0]["replicas"] for one in (before, after)] == [2, 3]

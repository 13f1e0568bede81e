"""What is generated is up to date, and what must not be in the repository is found."""

from __future__ import annotations

import re

import generate
import leak_scan
import pytest


def test_settings_page_is_up_to_date():
    assert generate.out_of_date() == [], "run `make docs`"


def test_published_schemas_are_those_of_the_newest_versions():
    made = {path.name for path in generate.published_schemas()}
    assert {"run-1.json", "verdict-2.json", "kpi_definitions-1.json"} <= made
    newest = {name.partition("/")[0]: name for name in sorted(generate.schema_catalogue.SCHEMAS)}
    assert set(generate.schema_catalogue.PUBLISHED) <= set(newest.values())


def test_a_secret_never_shows_its_default():
    setting = generate.settings_catalogue.Setting("x_token", "x", {"no_log": True, "default": "hunter2"})
    assert "hunter2" not in generate.as_default(setting)


@pytest.mark.parametrize(
    ("markup", "markdown"),
    [
        ("C(a.yml) or V(0)", "`a.yml` or `0`"),
        ("E(KUBECONFIG), O(run_dir)", "`KUBECONFIG`, `run_dir`"),
        (r"V(f(x\)\\)", r"`f(x)\`"),
        ("C(<a>[=<b>]:{c})", "`<a>[=<b>]:{c}`"),
        ("O(ns.col.mod#module:one)", "`one` of `ns.col.mod`"),
        ("O(ns.col.role#role:main:role_x)", "`role_x`"),
        ("M(ns.col.mod), P(ns.col.f#filter)", "`ns.col.mod`, `ns.col.f`"),
        ("I(not) B(all) L(here, https://a.b/c) U(https://a.b)", "*not* **all** [here](https://a.b/c) <https://a.b>"),
        ("Kubernetes(1)", "Kubernetes(1)"),
        ("C(a|b)", r"`a\|b`"),
    ],
)
def test_markup_of_ansible_becomes_markdown(markup, markdown):
    assert generate.as_text([markup]) == markdown


def test_settings_page_has_no_raw_markup():
    assert re.findall(r"\b(?:[BCEILMOPUV]|RV)\([^)]*\)", generate.settings_page()) == []


@pytest.mark.parametrize(
    "line", ["see https://" + "pypi" + ".org/simple", "-----BEGIN RSA PRIVATE" + " KEY-----", f"cd {leak_scan.ROOT}/x"]
)
def test_a_trace_is_found_with_its_place(tmp_path, monkeypatch, line):
    monkeypatch.setattr(leak_scan, "ROOT", tmp_path)
    path = tmp_path / "notes.md"
    path.write_text(f"first\n{line}\n")
    (found,) = leak_scan.findings(path)
    assert found.startswith("notes.md:2: ")


def test_an_ordinary_line_is_no_trace(tmp_path, monkeypatch):
    monkeypatch.setattr(leak_scan, "ROOT", tmp_path)
    path = tmp_path / "notes.md"
    path.write_text("packages come from PyPI; certificates lie in /tmp/x/pki\n")
    assert leak_scan.findings(path) == []

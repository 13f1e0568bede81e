"""Templates: bytes for any index, cheaply where that is the same as rendering each one."""

from __future__ import annotations

import json
from array import array
from typing import Any

import pytest
from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import read_yaml_like_kubectl
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan import template_renderer
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.rendered_workload_templates import (
    BodyCache,
    RenderedTemplate,
    WorkloadTemplate,
    namespaces_of_workloads,
    workload_name,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._load.plan.template_renderer import (
    render_template_for_indices,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ name }}'}\n"


def made(content: str, count: int = 12, **parameters: Any) -> RenderedTemplate:
    return render_template_for_indices(
        WorkloadTemplate("t", content, 1, parameters), "test-run", "001", "ns", range(count)
    )


def test_an_object_is_named_and_labelled_and_keeps_its_own_labels() -> None:
    rendered = made("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  labels: {mine: '1'}\ndata: {run: '{{ run_id }}'}\n")
    assert rendered.workload.bodies is None, "it could have been cut into pieces"
    assert rendered.workload.manifest(7) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "test-run-001-7",
            "labels": {"mine": "1", **run_labels.workload_labels("test-run", "001", 7)},
        },
        "data": {"run": "test-run"},
    }
    assert rendered.workload.name(7) == "test-run-001-7"


@pytest.mark.parametrize(
    ("text", "cheap"),
    [
        ("{{ index }}", True),
        ("'{{ index }}'", True),
        ("a-{{ name }}-{{ index }}", True),
        ("{{ labels | to_json }}", True),
        ("{{ name ~ '-x' }}", True),
        ("{{ index + 1 }}", False),
        ("{{ index % 2 == 0 }}", False),
        ("'{{ \"%05d\" | format(index) }}'", False),
        ("{% if index > 3 %}a{% else %}b{% endif %}", False),
        ("{{ name | upper }}", False),
        ("0{{ index }}", False),
        ("{{ labels['perfscale.seatrial/index'] }}", False),
    ],
)
def test_each_way_gives_what_rendering_each_index_gives(text: str, cheap: bool) -> None:
    rendered = made(f"{HEAD}data: {{x: {text}}}\n" if not text.startswith("{%") else f"{HEAD}data:\n  x: {text}\n")
    assert (rendered.workload.bodies is None) is cheap
    import jinja2

    environment = jinja2.Environment()
    environment.filters["to_json"] = json.dumps
    for index in range(12):
        name = f"test-run-001-{index}"
        values = {"index": index, "name": name, "labels": run_labels.workload_labels("test-run", "001", index)}
        expected = read_yaml_like_kubectl.load_first_document(environment.from_string(f"x: {text}").render(values))["x"]
        assert rendered.workload.manifest(index)["data"]["x"] == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=30))
def test_a_parameter_of_any_text_comes_through_whole(index: int, text: str) -> None:
    rendered = render_template_for_indices(
        WorkloadTemplate("t", HEAD + "data: {x: {{ x | to_json }}}\n", 1, {"x": text}),
        "test-run",
        "001",
        "ns",
        range(index + 1),
    )
    assert rendered.workload.manifest(index)["data"]["x"] == text


def test_a_number_in_the_template_is_never_taken_for_the_index() -> None:
    rendered = made(f"{HEAD}data: {{x: '7301948265017', z: '{{{{ index }}}}'}}\n")
    assert rendered.workload.manifest(5)["data"] == {"x": "7301948265017", "z": "5"}


def test_what_is_rendered_one_by_one_takes_no_memory_for_its_bodies() -> None:
    content = HEAD + "data: {x: '{{ index * 2 }}', y: '" + "y" * 5000 + "'}\n"
    rendered = made(content, count=200)
    assert [rendered.workload.manifest(i)["data"]["x"] for i in (0, 1, 99, 199)] == ["0", "2", "198", "398"]
    assert isinstance(rendered.workload.bodies, BodyCache)


@pytest.mark.parametrize("text", ["{{ index }}", "{{ index * 2 }}"])
def test_only_what_a_template_is_used_for_is_rendered(text: str) -> None:
    rendered = render_template_for_indices(
        WorkloadTemplate("t", f"{HEAD}data: {{x: '{text}'}}\n"), "test-run", "001", "ns", array("Q", [3, 7, 40])
    )
    factor = 2 if "*" in text else 1
    assert rendered.first == 3
    for index in (3, 7, 40):
        assert rendered.workload.manifest(index)["data"]["x"] == str(index * factor)
        assert rendered.workload.manifest(index)["metadata"]["name"] == rendered.workload.name(index)
    if rendered.workload.bodies is not None:
        for index in (0, 4, 41):
            with pytest.raises(KeyError):
                rendered.workload.body(index)


def test_a_template_that_nothing_is_made_from_is_still_tried() -> None:
    assert render_template_for_indices(WorkloadTemplate("t", HEAD), "test-run", "001", "ns", array("Q")).first == 0
    with pytest.raises(InputError, match="'nobody' is undefined"):
        render_template_for_indices(
            WorkloadTemplate("t", HEAD + "data: {x: '{{ nobody }}'}\n"), "test-run", "001", "ns", array("Q")
        )


def test_related_objects_come_before_the_workload() -> None:
    rendered = made(HEAD.replace("{{ name }}", "{{ name }}-cfg") + "---\n" + HEAD.replace("ConfigMap", "Secret"))
    assert [(one.kind, one.name(3)) for one in rendered.documents] == [
        ("ConfigMap", "test-run-001-3-cfg"),
        ("Secret", "test-run-001-3"),
    ]
    assert rendered.header()["related"] == ["ConfigMap"] and rendered.header()["kind"] == "Secret"


def test_names_follow_the_index_also_where_each_object_is_rendered() -> None:
    rendered = made(
        HEAD.replace("{{ name }}", "{{ name }}-cfg") + "---\n" + HEAD + "data: {x: '{{ index * 2 }}'}\n", count=25
    )
    assert rendered.documents[0].name(21) == "test-run-001-21-cfg"
    assert rendered.workload.manifest(21)["data"] == {"x": "42"}


@pytest.mark.parametrize(
    ("content", "parameters", "words"),
    [
        (HEAD + "data: {x: '{{ gpu }}'}", {"gpus": 1}, "'gpu' is undefined (did you mean 'gpus'?)"),
        (HEAD + "data: {x: '{{ nme }}'}", {}, "did you mean 'name'?"),
        (HEAD + "data:\n  x: 1\n  y: '{{ nme }}'", {}, "template 't', line 6: 'nme' is undefined"),
        (HEAD + "{% if %}", {}, "template 't', line 4"),
        (HEAD + "data: [", {}, "not readable as YAML"),
        ("", {}, "gives no object"),
        ("- 1", {}, "document 1 of 1: an object needs apiVersion and kind"),
        ("kind: Job", {}, "an object needs apiVersion and kind"),
        (HEAD.replace("{{ name }}", "fixed"), {}, "the workload's metadata.name is 'fixed', it must be {{ name }}"),
        (HEAD.replace("{{ name }}", "shared") + "---\n" + HEAD, {}, "metadata.name 'shared' must hold {{ name }}"),
        (HEAD + "data: {d: .nan}", {}, "line 4: .nan is no number that JSON has; put it into quotes"),
        (HEAD, {"name": "x"}, "parameter 'name' is the name of a variable that every template has"),
        (HEAD + "data: {x: {{ 1 / 0 }}}", {}, "cannot be rendered: ZeroDivisionError"),
        (HEAD + "data: {x: {{ ''.__class__.__mro__ }}}", {}, "cannot be rendered: SecurityError: access to attribute"),
        (HEAD.replace("ConfigMap", "{{ 'ConfigMap' if index else 'Secret' }}"), {}, "use two templates"),
    ],
)
def test_what_is_wrong_in_a_template_is_named(content: str, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        made(content, **parameters)
    assert words in str(caught.value) and "'t'" in str(caught.value)


#: Each level has the one before ten times.
BOMB = "a0: &a0 [x]\\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\\n" for n in range(1, 10))


def test_the_aliases_of_a_text_in_a_template_do_not_fill_the_memory() -> None:
    with pytest.raises(InputError, match="its aliases expand"):
        made(HEAD + "data: {x: {{ ('" + BOMB + "' | from_yaml) | to_json }}}")


def test_a_template_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_renderer, "RENDERING_LIMIT", 0.2)
    endless = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
    with pytest.raises(InputError, match=r"template 't': one object took more than 0\.2 s of processor time$"):
        made(HEAD + endless)


OWN_NAMESPACE = "metadata: {name: '{{ name }}', namespace: '{{ name }}'}"


@pytest.mark.parametrize("extra", ["", "data: {x: '{{ index * 2 }}'}"])
def test_each_workload_may_have_a_namespace_of_its_own(extra: str) -> None:
    documents = [
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: '{{ name }}'}",
        f"apiVersion: v1\nkind: ConfigMap\n{OWN_NAMESPACE}\n{extra}",
    ]
    rendered = made("\n---\n".join(documents))
    namespace, workload = rendered.documents
    assert not namespace.several_namespaces and namespace.namespace(5) == ""
    assert workload.several_namespaces and workload.namespace(5) == "test-run-001-5"
    assert workload.manifest(11)["metadata"]["namespace"] == "test-run-001-11"
    workload.paths = f"/api/v1/namespaces/{workload.namespace('{}')}/configmaps".split("{}")
    assert workload.path(7) == "/api/v1/namespaces/test-run-001-7/configmaps"
    assert rendered.header()["namespace"] == "test-run-001-{index}"


def test_the_namespace_of_a_document_must_follow_from_its_name() -> None:
    with pytest.raises(InputError, match="the namespace 'ns-1' of a document depends on the index"):
        made(HEAD.replace("'}", "', namespace: 'ns-{{ index % 2 }}'}"))


def test_a_list_of_objects_stands_for_them_as_in_kubectl() -> None:
    items = "\n".join(
        f"  - {{apiVersion: v1, kind: {kind}, metadata: {{name: '{{{{ name }}}}'}}}}" for kind in ("A", "B")
    )
    rendered = made(f"apiVersion: v1\nkind: List\nitems:\n{items}\n")
    assert [document.kind for document in rendered.documents] == ["A", "B"]


CRD = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: 'things{{ index }}.{{ name }}.example.com'}
spec: {group: '{{ name }}.example.com', names: {plural: 'things{{ index }}'}}
"""


def test_a_definition_of_a_kind_is_named_after_its_group() -> None:
    rendered = made(CRD)
    assert rendered.workload.name(7) == "things7.test-run-001-7.example.com"
    with pytest.raises(InputError, match=r"it must be <plural>.<group> \('things0.test-run-001-0.example.com'\)"):
        made(CRD.replace("name: 'things{{ index }}.", "name: 'x.", 1))


def test_another_text_or_parameter_is_another_template() -> None:
    first = WorkloadTemplate("t", HEAD, 1, {"a": 1})
    assert first.digest() == WorkloadTemplate("t", HEAD, 1, {"a": 1}).digest()
    assert (
        len(
            {
                first.digest(),
                WorkloadTemplate("t", HEAD + " ", 1, {"a": 1}).digest(),
                WorkloadTemplate("t", HEAD, 1, {}).digest(),
            }
        )
        == 3
    )


Named = tuple[str, int, str]
POINTS = st.tuples(st.integers(0, 3), st.integers(1, 3)).map(lambda one: f"00{one[0]}" + ("", f"-{one[1]}")[one[1] > 1])


@given(*[st.tuples(POINTS, st.integers(0, 12), st.sampled_from(["", "-0", "-1", "-2-0"])) for _each in range(2)])
@example(("003", 2, "-0"), ("003-2", 0, ""))
def test_no_object_of_one_workload_has_a_name_of_another(one: Named, other: Named) -> None:
    """Controllers append numbers to the names of pods, and the objects of an earlier attempt may still exist."""
    names = [workload_name("test-run", point, index) + suffix for point, index, suffix in (one, other)]
    assert (names[0] == names[1]) == (one == other)


def test_objects_of_a_further_attempt_are_named_and_labelled_as_such() -> None:
    workload = render_template_for_indices(
        WorkloadTemplate("t", HEAD, 1, {}), "test-run", "003-2", "ns", range(12)
    ).workload
    metadata = workload.manifest(11)["metadata"]
    assert metadata["name"] == workload.name(11) == "test-run-003r2-11"
    assert metadata["labels"] == run_labels.workload_labels("test-run", "003-2", 11)


MACRO = """{%- set seconds = index + 1 -%}
{%- macro pod(name) -%}
metadata: {labels: {{ labels | to_json }}}
spec: {restartPolicy: {{ name }}, sleep: {{ seconds }}}
{%- endmacro -%}
apiVersion: v1
kind: ConfigMap
metadata: {name: none-{{ name }}}
---
"""
SHARED = """apiVersion: v1
kind: Secret
metadata: {labels: {mine: "1"}}
data: {{ (pod("Never") | from_yaml).spec | to_json }}
"""


def test_shared_objects_are_rendered_once_with_the_macros_of_the_workloads_and_without_their_documents() -> None:
    template = WorkloadTemplate("My kind", MACRO + HEAD + "data: {uses: '{{ prepared }}'}\n", prepare=SHARED)
    rendered = render_template_for_indices(template, "test-run", "001", "ns", [4, 5])
    (shared,) = rendered.shared
    assert shared["metadata"] == {
        "name": "test-run-001-my-kind",
        "namespace": "ns",
        "labels": {
            "mine": "1",
            run_labels.RUN: "test-run",
            run_labels.POINT: "001",
            run_labels.PART: "prepare",
        },
    }
    assert shared["data"] == {"restartPolicy": "Never", "sleep": 5}
    assert [one.manifest(5)["kind"] for one in rendered.documents] == ["ConfigMap", "ConfigMap"]
    assert rendered.workload.manifest(5)["data"] == {"uses": "test-run-001-my-kind"}
    assert rendered.header()["shared"] == [["Secret", "ns"]]
    assert "shared" not in made(HEAD).header()


def test_the_namespaces_of_workloads_are_those_of_all_their_documents() -> None:
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: '{{ name }}'}\n"
    rendered = made(space + "---\n" + HEAD.replace("{name:", "{namespace: '{{ name }}', name:"))
    places = namespaces_of_workloads([rendered], [("t", 3), ("t", 5)], "ns")
    assert places == {"ns", "test-run-001-3", "test-run-001-5"}
    assert namespaces_of_workloads([made(HEAD)], [("t", 3)], "ns") == {"ns"}


def test_a_shared_object_that_other_runs_would_share_is_refused() -> None:
    template = WorkloadTemplate("t", HEAD, prepare="apiVersion: v1\nkind: Secret\nmetadata: {name: mine}\n")
    with pytest.raises(InputError, match=r"shared object 1 of 1: metadata.name 'mine' must hold \{\{ prepared \}\}"):
        render_template_for_indices(template, "test-run", "001", "ns", [0])


def test_a_template_asks_which_fields_the_server_has() -> None:
    text = HEAD + 'data: {x: \'{{ server_has("g/v1", "Kind", "spec.x") }}\'}\n'

    def has(*field: str) -> bool:
        return field == ("g/v1", "Kind", "spec.x")

    assert render_template_for_indices(WorkloadTemplate("t", text), "r", "001", "ns", [0], None, has).workload.manifest(
        0
    )["data"] == {"x": "True"}

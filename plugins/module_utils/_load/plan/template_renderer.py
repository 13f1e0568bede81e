# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Renders a template to request bodies, cheaply for any index.

A template is rendered once with a placeholder for the index. The JSON of the result is split at the placeholder, and
the body of an object is these pieces joined by its index. If a template does more with index or name than print them (a
condition, arithmetic, a filter), each object is rendered individually beforehand. Their bodies, of which there may be
100,000, are then in a file on disk.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.perfscale.seatrial.plugins.module_utils._base import run_labels
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import InputError, suggest_similar_name
from ansible_collections.perfscale.seatrial.plugins.module_utils._base.untrusted_input import (
    limit_processor_time,
    parse_json,
    parse_yaml,
)
from ansible_collections.perfscale.seatrial.plugins.module_utils._kube import read_yaml_like_kubectl

from .random_draws import draw_number_for_workload
from .rendered_workload_templates import (
    VARIABLES,
    BodyCache,
    RenderedTemplate,
    WorkloadDocument,
    WorkloadTemplate,
    shared_objects_name,
    workload_name,
)

#: Seconds of processor time for the rendering of one object.
RENDERING_LIMIT = 30.0
_VARYING = frozenset(("index", "name", "labels"))
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_HARMLESS_FILTERS = frozenset(("string", "tojson", "to_json"))
#: Whether the server's schema of (API version, kind) has a field.
HasField = Callable[[str, str, str], bool]


def render_template_for_indices(
    template: WorkloadTemplate,
    run: str,
    point: str,
    namespace: str,
    indices: Sequence[int],
    client: int | None = None,
    has_field: HasField = lambda _version, _kind, _field: True,
) -> RenderedTemplate:
    """Render ``template`` for the workloads with these indices (ascending); without any, check it with index 0.

    client: number of the client that sends them, for a label; None if there is only one. has_field: of the server.
    Raises InputError naming the template for bad syntax, an unknown variable, a document that is no object, or a wrong
    name.
    """
    renderer = _WorkloadTemplateRenderer(template, run, point, namespace, client, has_field)
    made = renderer.rendered(indices or (0,))
    made.shared = renderer.shared(made)
    return made


class _WorkloadTemplateRenderer:
    def __init__(
        self,
        template: WorkloadTemplate,
        run: str,
        point: str,
        namespace: str,
        client: int | None,
        has_field: HasField,
    ) -> None:
        self.template = template
        self.run = run
        self.point = point
        self.namespace = namespace
        self.client = client
        clash = next((name for name in template.parameters if name in VARIABLES), None)
        if clash:
            raise InputError(
                f"template '{template.name}': parameter '{clash}' is the name of a variable that every template has"
            )
        import jinja2.sandbox

        self.prepared = shared_objects_name(run, point, template.name)
        # A template may be somebody else's: it makes objects, and reaches nothing of this machine.
        self.environment = jinja2.sandbox.SandboxedEnvironment(
            undefined=jinja2.StrictUndefined, keep_trailing_newline=True
        )
        self.environment.filters["from_yaml"] = _parse_limited_yaml
        self.environment.globals["server_has"] = has_field
        self.environment.filters["to_json"] = self.environment.filters["tojson"] = yaml_json
        self.environment.filters["drawn"] = draw_number_for_workload
        try:
            self.compiled = self.environment.from_string(template.content)
            self.preparing = self.environment.from_string(template.prepare)
            self.tree = self.environment.parse(template.content)
        except jinja2.TemplateSyntaxError as error:
            raise InputError(f"template '{template.name}', line {error.lineno}: {error.message}") from error

    def rendered(self, indices: Sequence[int]) -> RenderedTemplate:
        mark, count = self._mark(), len(indices)
        samples = sorted({indices[place] for place in (0, min(1, count - 1), count // 2, count - 1)})
        exact = {index: self._objects(index) for index in samples}
        if self._prints_only():
            objects = self._objects(mark)
            made = [_document_from_manifest(obj, str(mark)) for obj in objects]
            if all(
                [document.body(index) for document in made]
                == [_encode_manifest_json(manifest) for manifest in exact[index]]
                for index in samples
            ):
                return RenderedTemplate(self.template, made, self.namespace, indices[0])
        return RenderedTemplate(self.template, self._each(indices), self.namespace, indices[0])

    def _each(self, indices: Sequence[int]) -> list[WorkloadDocument]:
        """Render every workload individually; bodies go to a file."""
        first = self._objects(indices[0])
        made = [_document_from_manifest(manifest, None) for manifest in first]
        for document, manifest in zip(made, first, strict=True):
            document.names = self._pieces(str(manifest["metadata"]["name"]), indices[0])
            document.namespaces = self._pieces(document.namespace(indices[0]), indices[0])
            document.bodies = BodyCache(indices)
        for index in indices:
            row = self._objects(index)
            if len(row) != len(made):
                raise InputError(
                    f"template '{self.template.name}': the number of documents depends on the index; use two templates"
                )
            for document, manifest in zip(made, row, strict=True):
                self._same(document, manifest, index)
                if document.bodies is None:
                    raise AssertionError("an individually rendered document has bodies")
                document.bodies.append(_encode_manifest_json(manifest))
        for document in made:
            if document.bodies is not None:
                document.bodies.seal()
        return made

    def _same(self, document: WorkloadDocument, manifest: dict[str, Any], index: int) -> None:
        """Check that kind, namespace and name of an object do not depend on the index in another way."""
        if (str(manifest["apiVersion"]), str(manifest["kind"])) != (document.api_version, document.kind):
            raise InputError(
                f"template '{self.template.name}': the kind of a document depends on the index; use two templates"
            )
        namespace = str(manifest["metadata"].get("namespace") or "")
        if namespace != document.namespace(index):
            raise InputError(
                f"template '{self.template.name}': the namespace '{namespace}' of a document depends on the index; it"
                f" must be made from {{{{ name }}}}"
            )
        if manifest["metadata"]["name"] != document.name(index):
            raise InputError(
                f"template '{self.template.name}': metadata.name '{manifest['metadata']['name']}' must be made from "
                f"{{{{ name }}}}"
            )

    def _pieces(self, text: str, index: int) -> list[str]:
        """Return the pieces of a name around the index, from that of the object with this index."""
        before, found, after = text.partition(workload_name(self.run, self.point, index))
        return [f"{before}{workload_name(self.run, self.point, '')}", after] if found else [text]

    def _mark(self) -> int:
        """Return a number that does not occur in the template or its parameters."""
        held = self.template.content + json.dumps([self.template.parameters, self.run, self.point, self.namespace])
        mark = 7301948265017
        while str(mark) in held:
            mark += 1
        return mark

    def _objects(self, index: int) -> list[dict[str, Any]]:
        """Render the template for one index and return its documents, with names and labels."""
        name = workload_name(self.run, self.point, index)
        ours = {**run_labels.workload_labels(self.run, self.point, index), **run_labels.client_label(self.client)}
        manifests = self._load(self.compiled, {"index": index, "name": name, "labels": ours})
        if not manifests:
            raise InputError(f"template '{self.template.name}' gives no object")
        for number, manifest in enumerate(manifests, 1):
            self._finish(manifest, number, len(manifests), name, ours)
        return manifests

    def shared(self, made: RenderedTemplate) -> list[dict[str, Any]]:
        """Return the objects that the workloads share, rendered as for the first of them."""
        if not self.template.prepare:
            return []
        name, ours = self.prepared, run_labels.labels_of_shared_objects(self.run, self.point)
        values = {"index": made.first, "name": name, "labels": ours}
        # Its macros and variables are those of the template of the workloads.
        macros = self._call(lambda given: vars(self.compiled.make_module(given)), values)
        own = {key: value for key, value in macros.items() if not key.startswith("_")}
        manifests = self._load(self.preparing, {**own, **values})
        for number, manifest in enumerate(manifests, 1):
            where = f"template '{self.template.name}', shared object {number} of {len(manifests)}"
            metadata = self._checked_metadata(manifest, where)
            if name not in metadata.setdefault("name", name):
                raise InputError(f"{where}: metadata.name '{metadata['name']}' must hold {{{{ prepared }}}} ('{name}')")
            metadata.setdefault("namespace", made.workload.fixed_namespace(self.namespace) or self.namespace)
            metadata["labels"] = {**(metadata.get("labels") or {}), **ours}
        return manifests

    def _load(self, compiled: Any, values: dict[str, Any]) -> list[dict[str, Any]]:
        """Render a text and return its documents."""
        import yaml

        text = self._call(compiled.render, values)
        try:
            manifests = read_yaml_like_kubectl.load_kubernetes_objects(text)
        except yaml.YAMLError as error:
            why = read_yaml_like_kubectl.describe_yaml_error(error)
            raise InputError(f"template '{self.template.name}': not readable as YAML: {why}") from error
        return manifests

    def _call(self, render: Callable[[dict[str, Any]], Any], values: dict[str, Any]) -> Any:
        """Call a function of Jinja with all variables. Raises InputError."""
        import jinja2

        fixed = {"run_id": self.run, "point": self.point, "namespace": self.namespace, "prepared": self.prepared}
        try:
            with limit_processor_time(RENDERING_LIMIT, f"template '{self.template.name}': one object", hint=""):
                return render({**self.template.parameters, **fixed, **values})
        except InputError:  # the limit
            raise
        except jinja2.UndefinedError as error:
            known = [*VARIABLES, *self.template.parameters]
            word = str(error.message).split("'")[1] if "'" in str(error.message) else ""
            frames = [
                frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<template>"
            ]
            line = f", line {frames[-1]}" if frames else ""
            raise InputError(
                f"template '{self.template.name}'{line}: {error.message}{suggest_similar_name(word, known)}"
            ) from error
        except Exception as error:  # whatever a filter or an expression of the template raises
            raise InputError(
                f"template '{self.template.name}' cannot be rendered: {type(error).__name__}: {error}"
            ) from error

    @staticmethod
    def _checked_metadata(manifest: Any, where: str) -> dict[str, Any]:
        if not isinstance(manifest, dict) or not manifest.get("apiVersion") or not manifest.get("kind"):
            raise InputError(f"{where}: an object needs apiVersion and kind")
        metadata = manifest.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise InputError(f"{where}: metadata must be a dictionary")
        if not isinstance(metadata.get("labels") or {}, dict) or not isinstance(metadata.get("name", ""), str):
            raise InputError(f"{where}: metadata.name must be text, and metadata.labels a dictionary")
        return metadata

    def _finish(self, manifest: Any, number: int, of: int, name: str, ours: dict[str, str]) -> None:
        where = f"template '{self.template.name}', document {number} of {of}"
        metadata = self._checked_metadata(manifest, where)
        wanted = _name_of_definition(manifest) or name
        written = metadata.setdefault("name", wanted)
        if number == of and written != wanted:
            raise InputError(
                f"{where}: the workload's metadata.name is '{written}', it must be "
                + (f"<plural>.<group> ('{wanted}')" if wanted != name else f"{{{{ name }}}} ('{name}')")
            )
        if name not in str(written):
            raise InputError(
                f"{where}: metadata.name '{written}' must hold {{{{ name }}}}, else two workloads would"
                " share the object"
            )
        metadata["labels"] = {**(metadata.get("labels") or {}), **ours}
        try:
            _encode_manifest_json(manifest)
        except TypeError as error:
            raise InputError(f"{where}: a value has no JSON form ({error})") from error

    def _prints_only(self) -> bool:
        """Return whether index, name and labels are only printed, unchanged."""
        from jinja2 import nodes

        def plain(node: nodes.Node) -> int:
            """Return the number of varying names that an expression only prints."""
            if (
                isinstance(node, nodes.Filter)
                and node.name in _HARMLESS_FILTERS
                and node.node is not None
                and not node.args
            ):
                node = node.node
            if isinstance(node, nodes.Concat):
                return sum(plain(part) for part in node.nodes)
            return int(isinstance(node, nodes.Name) and node.name in _VARYING)

        used = sum(1 for node in self.tree.find_all(nodes.Name) if node.name in _VARYING)
        printed = sum(plain(part) for output in self.tree.find_all(nodes.Output) for part in output.nodes)
        return used == printed


def _parse_limited_yaml(text: Any) -> Any:
    """Return the document of a text, which may be a stranger's: its aliases do not exhaust the memory."""
    return parse_yaml(str(text), "from_yaml")


def yaml_json(value: Any) -> str:
    """Return ``value`` as JSON that is also YAML, which does not permit surrogate pairs of escapes."""
    return _PAIR.sub(lambda pair: parse_json(f'"{pair.group()}"'), json.dumps(value))


def _encode_manifest_json(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, separators=(",", ":")).encode()


def _name_of_definition(manifest: dict[str, Any]) -> str:
    """Return the name that a CustomResourceDefinition must have, empty for an object of another kind."""
    spec = manifest.get("spec")
    names = spec.get("names") if isinstance(spec, dict) else None
    if manifest["kind"] != "CustomResourceDefinition" or not isinstance(spec, dict) or not isinstance(names, dict):
        return ""
    return f"{names.get('plural')}.{spec.get('group')}"


def _document_from_manifest(manifest: dict[str, Any], mark: str | None) -> WorkloadDocument:
    metadata = manifest["metadata"]
    name, namespace = str(metadata["name"]), str(metadata.get("namespace") or "")
    body = _encode_manifest_json(manifest)
    return WorkloadDocument(
        api_version=str(manifest["apiVersion"]),
        kind=str(manifest["kind"]),
        namespaces=namespace.split(mark) if mark else [namespace],
        names=name.split(mark) if mark else [name],
        pieces=body.split(mark.encode()) if mark else [body],
    )

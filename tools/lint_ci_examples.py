"""Check the examples of docs/ci.md: by the published schema of their engine, by ours, or by a parser of Groovy.

The schemas of GitHub Actions and GitLab are those that check-jsonschema contains. Nothing is fetched.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import check_jsonschema
import jsonschema
import tree_sitter
import tree_sitter_groovy
import yaml
from common import ROOT, run

PAGE = ROOT / "docs" / "ci.md"
OURS = ROOT / "tools" / "ci_example_schemas.yml"
PUBLISHED = {"github_actions": "github-workflows", "gitlab": "gitlab-ci"}
_BLOCK = re.compile(r"<!-- test: (\w+) -->\n```\w+\n(.*?)```", re.DOTALL)


class _Loader(yaml.SafeLoader):
    """YAML 1.2, as the engines read it: ``on`` is a text."""


_Loader.yaml_implicit_resolvers = {
    first: [one for one in known if one[0] != "tag:yaml.org,2002:bool"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


def schemas() -> dict[str, Any]:
    """Return engine -> JSON Schema."""
    folder = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    published = {engine: json.loads((folder / f"{name}.json").read_text()) for engine, name in PUBLISHED.items()}
    return {**yaml.safe_load(OURS.read_text(encoding="utf-8")), **published}


def by_schema(schema: Any) -> Callable[[str], Iterator[str]]:
    """Return a check of a YAML document."""

    def check(text: str) -> Iterator[str]:
        try:
            document = yaml.load(text, _Loader)
        except yaml.YAMLError as error:
            yield str(error)
            return
        kind = jsonschema.validators.validator_for(schema)
        for wrong in kind(schema).iter_errors(document):
            yield f"{wrong.json_path}: {jsonschema.exceptions.best_match([wrong]).message}"

    return check


def groovy(text: str) -> Iterator[str]:
    """Yield what is no Groovy in a Jenkinsfile."""
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_groovy.language()))
    todo = [parser.parse(text.encode()).root_node]
    while todo:
        node = todo.pop()
        if node.is_error or node.is_missing:
            yield f"line {node.start_point[0] + 1}: no Groovy"
        todo += node.children


def problems(page: str) -> list[str]:
    """Return what is wrong with the examples of a page."""
    checks = {**{engine: by_schema(one) for engine, one in schemas().items()}, "jenkins": groovy}
    found = []
    for engine, text in _BLOCK.findall(page):
        if engine in checks:
            found += [f"{engine}: {why}" for why in checks[engine](text)]
        else:
            found.append(f"{engine}: there is no schema of this engine")
    return found


def main() -> int:
    """Print what is wrong; return 1 if something is."""
    found = [f"docs/ci.md: {one}" for one in problems(PAGE.read_text(encoding="utf-8"))]
    print("\n".join(found) or "docs/ci.md: all examples are valid")
    return 1 if found else 0


if __name__ == "__main__":
    run(lambda: sys.exit(main()))

"""Build the documentation as a site: build_site.py [--links]

The pages of docs/ stay as GitHub shows them. What differs on the site is written into a folder of its own: links to
pages, to files of the repository and to one page of settings for each role, the navigation (from the tables of
docs/README.md), and the reference of modules and roles, which antsibull-docs writes. A warning of Sphinx, such as a
link that leads nowhere, ends it. --links also requests each link to another site.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path

import generate
from artefact import build, install
from common import CACHE, ROOT, quiet_environment, run, run_logged, say, stop, tail
from extra_environment import programs

SOURCE, HTML = CACHE / "site" / "source", CACHE / "site" / "html"
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/perfscale/seatrial"

#: Files outside docs/ that are pages of the site.
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "pages.md",
    "CHANGELOG.rst": "changelog.rst",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "AGENTS.md": "agents.md",
}
#: Labels of Ansible's own documentation that antsibull-docs refers to, beside those of its modules -> the page.
ANSIBLE = "https://docs.ansible.com/projects/ansible/latest/"
LABELS = {
    "action_plugins": "plugins/action.html",
    "ansible_configuration_settings": "reference_appendices/config.html",
    "callback_plugins": "plugins/callback.html",
    "common_return_values": "reference_appendices/common_return_values.html",
}
#: Seconds for each program.
LIMIT = 900.0

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def page_of(path: str, anchor: str) -> str:
    """Return the link on the site to a file of the repository, which may be a page of it."""
    if path == "docs/settings.md":
        return f"settings/{anchor}.md" if anchor else "settings/index.md"
    name = PAGES.get(path)
    if name is None and path.startswith("docs/") and path.endswith(".md"):
        name = path.removeprefix("docs/")
    if name is None:
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        name = f"{REPOSITORY}/{kind}/main/{path}"
    return f"{name}#{anchor}" if anchor else name


def relink(text: str, folder: str) -> str:
    """Return a page of the repository's ``folder`` with the links that it has on the site."""

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        ours = re.sub(
            rf"^({REPOSITORY}/(blob|tree)|https://raw\.githubusercontent\.com/perfscale/seatrial)/main/", "/", target
        )
        path, _hash, anchor = ours.partition("#")
        if re.match(r"\w+:", ours) or not path:
            return match[0]
        full = (ROOT / path[1:] if path[0] == "/" else ROOT / folder / path).resolve()
        found = str(full.relative_to(ROOT))
        if not full.exists():
            stop(f"{folder or '.'}: the link {target} leads nowhere")
        return f"{image}[{label}]({found.removeprefix('docs/') if image else page_of(found, anchor)})"

    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in _FENCE.split(text))


def navigation() -> list[tuple[str, list[str]]]:
    """The sections of docs/README.md, each with the pages that it links; a page is in the first one that names it."""
    sections: list[tuple[str, list[str]]] = []
    seen = {"README", "settings"}
    for line in (DOCS / "README.md").read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"\| \*\*(.*)\*\* \|", line):
            sections.append((heading[1], []))
        for page in re.findall(r"\]\((\w+)\.md[^)]*\)", line) if sections else []:
            if page not in seen:
                seen.add(page)
                sections[-1][1].append(page)
    return sections


def toctrees() -> str:
    """The navigation in MyST, for the end of the first page."""
    parts = [("", ["pages"]), *navigation(), ("Reference", ["settings/index", "collections/index", "changelog"])]
    parts.append(("Project", ["contributing", "agents", "security", "conduct"]))
    lines = []
    for caption, pages in parts:
        lines += ["", "```{toctree}", ":hidden:", *([f":caption: {caption}"] if caption else []), *pages, "```"]
    return "\n".join(lines) + "\n"


def write(name: str, text: str) -> None:
    """Write a page of the source."""
    path = SOURCE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_settings() -> None:
    """One page for each role, and an index."""
    roles = generate.settings_by_role()

    def below(text: str) -> str:
        return re.sub(r"\]\((?!https?:|\.\./)(\w+\.md)", r"](../\1", text)

    rows = [f"| [{role}]({role}.md) | {len(settings)} |" for role, settings in roles.items()]
    listed = ["", "```{toctree}", ":hidden:", *roles, "```", ""]
    write("settings/index.md", "\n".join([below(generate.HEAD), "| role | settings |", "|---|---|", *rows, *listed]))
    for role in roles:
        write(
            f"settings/{role}.md",
            below("\n".join([f"# Settings of {role}", "", *generate.settings_table(roles[role])])),
        )


def write_pages() -> None:
    """Every page, with its links on the site."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(DOCS / "images", SOURCE / "images")
    shutil.copy(DOCS / "conf.py", SOURCE)
    for page in sorted(DOCS.glob("*.md")):
        if page.name not in ("README.md", "settings.md"):
            write(page.name, relink(page.read_text(encoding="utf-8"), "docs"))
    for path, name in PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        folder = str(Path(path).parent).removeprefix(".")
        write(
            name, text if name.endswith(".rst") else relink(text, folder) + (toctrees() if name == "index.md" else "")
        )
    write_settings()


def write_reference(tools: Path) -> None:
    """The pages of modules and roles, written by antsibull-docs from the built archive."""
    log = CACHE / "site" / "antsibull-docs.log"
    with tempfile.TemporaryDirectory(prefix="seatrial-site-") as folder:
        place = Path(folder)
        install(build(place), place)
        target = SOURCE / "collections"
        target.mkdir()
        # It leaves a log in the home folder, whatever one asks for.
        env = quiet_environment(ANSIBLE_COLLECTIONS_PATH=folder, HOME=folder, PATH=f"{tools}:/usr/bin:/bin")
        command = [
            str(tools / "antsibull-docs"),
            "collection",
            "--use-current",
            "--squash-hierarchy",
            "--fail-on-error",
        ]
        command += ["--dest-dir", str(target), "perfscale.seatrial"]
        if code := run_logged(command, log, "antsibull-docs", LIMIT, env=env, cwd=place):
            stop(f"antsibull-docs ended with {code}:\n{tail(log, 20)}")


def write_labels() -> None:
    """A page with the labels of Ansible's documentation that the reference uses: no request while the site is built."""
    pages = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "collections").glob("*.rst"))
    found = set(re.findall(r"<(ansible_collections\.(?!perfscale\.)\w+\.\w+\.\w+_\w+)>`", pages))
    targets = LABELS | {label: f"{label.removeprefix('ansible_').replace('.', '/')}.html" for label in found}
    lines = [":orphan:", "", "Pages of Ansible's documentation", "=" * 32, ""]
    for label, target in sorted(targets.items()):
        lines += [f".. _{label}:", "", label, "-" * len(label), "", f"`{label} <{ANSIBLE}{target}>`__", ""]
    write("of_ansible.rst", "\n".join(lines))


def sphinx(tools: Path, builder: str, target: Path) -> None:
    """Run Sphinx; a warning ends it."""
    log = CACHE / "site" / f"{builder}.log"
    command = [
        str(tools / "sphinx-build"),
        "-W",
        "--keep-going",
        "-q",
        "-b",
        builder,
        "-d",
        str(CACHE / "site" / "doctrees"),
    ]
    if code := run_logged(
        [*command, str(SOURCE), str(target)], log, f"sphinx {builder}", LIMIT, env=quiet_environment()
    ):
        stop(f"sphinx ended with {code}:\n{tail(log, 40)}")


def main(arguments: list[str]) -> None:
    """Build the site and print where it is."""
    if wrong := [word for word in arguments if word != "--links"]:
        stop(f"build_site.py takes --links, not '{wrong[0]}'")
    tools = programs("site")
    write_pages()
    write_reference(tools)
    write_labels()
    shutil.rmtree(HTML, ignore_errors=True)
    sphinx(tools, "html", HTML)
    if arguments:
        sphinx(tools, "linkcheck", CACHE / "site" / "linkcheck")
    pages, where = len(list(HTML.rglob("*.html"))), HTML.relative_to(ROOT)
    say(f"{pages} pages: {where}/index.html (python3 -m http.server -b 127.0.0.1 -d {where})")


if __name__ == "__main__":
    run(lambda: main(sys.argv[1:]))

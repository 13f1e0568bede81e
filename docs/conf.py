"""Sphinx's configuration of the site that `make site` builds (tools/build_site.py writes the pages that it reads)."""

from __future__ import annotations

project = "perfscale.seatrial"
author = "The perfscale.seatrial authors"
html_title = project
extensions = ["myst_parser", "sphinx_antsibull_ext"]
# GitHub's anchors, so that a link works in both places.
myst_heading_anchors = 6
myst_enable_extensions = ["html_image"]
html_theme = "furo"
html_theme_options = {
    "source_repository": "https://github.com/perfscale/seatrial/",
    "source_branch": "main",
    "source_directory": "docs/",
}
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
# Examples in YAML hold templates, and those in JSON three dots.
suppress_warnings = ["misc.highlighting_failure"]
# Of `make site LINKS=1`. What is not public yet is no broken link; GitHub makes anchors in the browser.
linkcheck_ignore = [r"https://github\.com/perfscale/seatrial", r"https?://(localhost|127\.|.*\.example\.com)"]
linkcheck_anchors_ignore_for_url = [r"https://github\.com/"]
linkcheck_timeout = 30

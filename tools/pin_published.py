# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the checksums of published programs into their components: roles/rehearsal/files/components/*/published.sha256.

A rehearsal cluster fetches the programs whose checksums are there. Each is what its publisher says today: compare it
with another source before you commit it. Needs a machine that reaches the publishers.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import common

common.find_collection()

from ansible_collections.perfscale.seatrial.plugins.module_utils._base.errors import SeatrialError
from ansible_collections.perfscale.seatrial.plugins.module_utils._clusters.rehearsal import (
    component_selection,
    program_download,
)

COMPONENTS = Path(__file__).parents[1] / "roles" / "rehearsal" / "files" / "components"
PROCESSORS = ("amd64", "arm64")


def pins_of(component: component_selection.RehearsalComponent) -> dict[str, str]:
    """Return the checksums at the publisher: URL -> SHA-256, of all releases that the component knows."""
    published, pins = component.build.published, {}
    assert published is not None
    for version in sorted({component.version, *component.versions}):
        release = replace(component, version=version)
        for program in component.build.binaries:
            for processor in PROCESSORS:
                url = program_download.binary_url(published.url, release, program, processor)
                sums = program_download.checksum_file_url(published, release, program, processor)
                text = program_download.download_text_file(sums, program_download.ANSWER_TIMEOUT)
                pins[url] = program_download.find_file_checksum(url.rpartition("/")[2], text, sums)
    return pins


def main(folder: Path = COMPONENTS) -> int:
    """Write the checksums of all components; a component whose publisher fails keeps its own."""
    failed = 0
    for name, component in component_selection.load_all_components(folder).items():
        if component.build.published is None:
            continue
        try:
            pins = pins_of(component)
        except SeatrialError as error:
            print(f"{name}: unchanged: {error}", file=sys.stderr)
            failed += 1
            continue
        lines = [f"{digest}  {url}\n" for url, digest in sorted(pins.items())]
        (component.folder / program_download.PINS).write_text("".join(lines), encoding="utf-8")
        print(f"{name}: {len(pins)} checksums")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

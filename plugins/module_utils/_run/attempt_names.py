# Copyright (c) 2026, the perfscale.seatrial authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of the folders of attempts: ``003`` is the first attempt at point 003, ``003-2`` the second one."""

from __future__ import annotations


def attempt_folder(of: str, attempt: int) -> str:
    """Return the name of the folder of an attempt at point ``of``."""
    return of if attempt == 1 else f"{of}-{attempt}"


def split_attempt_name(name: str) -> tuple[str, int]:
    """Return point and attempt of a folder name; a name without a number of the attempt is a first attempt."""
    of, _dash, number = name.partition("-")
    return of, int(number) if number.isdecimal() else 1


def point_of_attempt(name: object) -> str:
    """Return the point of a folder name."""
    return split_attempt_name(str(name))[0]


def attempt_order(of: str, attempt: int = 1) -> tuple[int, str, int]:
    """Return the key that sorts attempts by point, then by attempt: 999 before 1000."""
    return len(of), of, attempt

"""Is what is installed the oldest that is promised? `oldest.py pyproject.toml EXTRA...`, by the Python in question.

A resolver that takes the newest after all makes no noise: the tests would pass, and prove nothing.
"""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement


def main(pyproject: str, extras: list[str]) -> int:
    """Name each that is not."""
    project = tomllib.loads(Path(pyproject).read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    wrong = 0
    for need in map(Requirement, asked):
        if need.marker is not None and not need.marker.evaluate():
            continue
        bounds = [bound.version for bound in need.specifier if bound.operator == ">="]
        found = version(need.name)
        print(f"{need.name:18}{found}")
        if not any(Requirement(f"{need.name}=={bound}").specifier.contains(found) for bound in bounds):
            print(f"{need.name} {found} is not the oldest that is promised: {need}")
            wrong += 1
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

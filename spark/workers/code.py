"""Code for executors: aiostorm as a zip, for machines where it is not installed.

1. The zip has the contents of the wheel: the modules, no tests. The packages that aiostorm needs must be installed.
2. The same code makes the same name: Spark refuses another file of the same name, and accepts the same one twice.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_SKIPPED_FOLDERS: Final = ("__pycache__",)


def zip_package(folder: Path) -> Path:
    """Make the zip in this folder. Returns its path."""
    package = Path(__file__).absolute().parents[2]
    # In a checkout this folder is beside the package, which links to it.
    if not (package / "__main__.py").exists():
        package = package / "aiostorm"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in _modules(package, package.name):
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes())
    data = made.getvalue()
    target = folder / f"aiostorm-{hashlib.sha256(data).hexdigest()[:12]}.zip"
    target.write_bytes(data)
    return target


def _modules(folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in _SKIPPED_FOLDERS:
            yield from _modules(path, f"{name}/{path.name}")
        elif path.suffix == ".py" or path.name == "py.typed":
            yield path, f"{name}/{path.name}"

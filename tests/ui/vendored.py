"""Compare what the page uses of others with the npm registry: `python -m tests.ui.vendored`. It needs npm.

For each package of ui/vendor/vendor.json: `npm pack`, its integrity, and each file byte by byte. With `--axe FILE` it
writes axe-core instead, with which the tests check that the page is accessible; the page itself does not use it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import aiostorm

VENDOR = Path(aiostorm.__file__).parent / "ui" / "vendor"
AXE = {
    "name": "axe-core",
    "version": "4.14.1",
    "integrity": "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
    "files": {"axe.min.js": "axe.min.js"},
}


def packed(package: dict[str, Any]) -> dict[str, bytes]:
    """The files of a package, by our names. SystemExit if the package is not the one that is named."""
    with tempfile.TemporaryDirectory() as folder:
        name = f"{package['name']}@{package['version']}"
        subprocess.run(["npm", "pack", "--silent", name], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != package["integrity"]:
            sys.exit(f"{name}: its integrity is {found}, and vendor.json says {package['integrity']}")
        with tarfile.open(archive) as files:
            members = {ours: files.extractfile(f"package/{theirs}") for ours, theirs in package["files"].items()}
            return {ours: member.read() for ours, member in members.items() if member is not None}


def main(arguments: list[str]) -> None:
    """Compare all; or write axe-core."""
    if arguments[:1] == ["--axe"]:
        Path(arguments[1]).write_bytes(packed(AXE)["axe.min.js"])
        return
    packages = json.loads((VENDOR / "vendor.json").read_text("utf-8"))["packages"]
    for package in packages:
        for name, body in packed(package).items():
            if (VENDOR / name).read_bytes() != body:
                sys.exit(f"{name} is not the file of {package['name']} {package['version']}")
    print(f"{len(packages)} packages: every file is that of the registry")


if __name__ == "__main__":
    main(sys.argv[1:])

"""What the page uses of others is named, with version, integrity and licence."""

from __future__ import annotations

import json

from .vendored import VENDOR


def test_every_file_is_of_a_package_that_is_named():
    packages = json.loads((VENDOR / "vendor.json").read_text("utf-8"))["packages"]
    named = {name for package in packages for name in package["files"]}
    assert named | {"vendor.json"} == {file.name for file in VENDOR.iterdir()}
    for package in packages:
        assert package["integrity"].startswith("sha512-")
        assert any(name.endswith(".LICENSE.txt") for name in package["files"]), package["name"]

"""Code of a topology in two versions: found, said with what differs, and refused."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from aiostorm import LocalCluster
from aiostorm.cluster import WorkerError
from aiostorm.cluster import fingerprint as fingerprints
from aiostorm.cluster.fingerprint import ROOT, code_of, differences, fingerprint
from aiostorm.cluster.worker import importing
from aiostorm.testing.simulation import World

from .sim_workers import SimBackend, with_workers

TARGET = "tests.cluster.test_workers:topology"

JOBS = """
from __future__ import annotations
import json
from typing import TYPE_CHECKING
import fp_shop.settings as settings
from fp_shop.prices import LIMIT
from .odd import *
if TYPE_CHECKING:
    from fp_shop import types_only
try:
    import fp_missing
except ImportError:
    import fp_shop.instead

def make():
    import fp_shop.later
"""

FILES = {
    "__init__.py": "",
    "jobs.py": JOBS,
    "settings.py": "RATE = 3",
    "prices.py": "LIMIT = 10",
    "odd.py": "import numpy",
    "types_only.py": "class T: ...",
    "instead.py": "",
    "later.py": "",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, str]]]:
    """A package of a user's, with some of its files changed, imported anew: its code."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fp_shop").mkdir()

    def load(*also: str, **changed: str) -> dict[str, str]:
        for name in [name for name in sys.modules if name.startswith("fp_shop")]:
            del sys.modules[name]
        for name, text in {**FILES, **{f"{name}.py": text for name, text in changed.items()}}.items():
            (tmp_path / "fp_shop" / name).write_bytes(text.encode())
        importlib.invalidate_caches()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        for name in ("jobs", *also):
            importlib.import_module(f"fp_shop.{name}")
        return code_of("fp_shop.jobs:make")

    yield load
    for name in [name for name in sys.modules if name.startswith("fp_shop")]:
        del sys.modules[name]


def test_the_fingerprint_covers_top_level_imports_and_versions(shop: Callable[..., dict[str, str]]) -> None:
    import numpy as np

    code = shop()
    own = {f"fp_shop.{name}" for name in ("settings", "prices", "odd", "instead")}
    assert code.keys() == {ROOT, "fp_shop", *own, "package numpy"}
    assert code["package numpy"] == np.__version__


def test_a_changed_constant_in_another_module_changes_the_fingerprint(shop: Callable[..., dict[str, str]]) -> None:
    """The trial: a node with another constant joined unnoticed."""
    one, other = shop(), shop(prices="LIMIT = 11")
    assert fingerprint(one) != fingerprint(other)
    [line] = differences(one, other)
    assert line == f"fp_shop.prices: {one['fp_shop.prices']} here, {other['fp_shop.prices']} in the worker"
    assert "fp_shop.more: missing here" in differences(one, shop(prices="import fp_shop.more\nLIMIT = 10", more=""))[0]


def test_other_imported_modules_and_line_ends_do_not_change_the_fingerprint(
    shop: Callable[..., dict[str, str]],
) -> None:
    code = shop()
    assert shop("later", "types_only") == code
    assert shop(jobs=JOBS.replace("\n", "\r\n")) == code


def test_a_long_list_is_cut() -> None:
    lines = differences({}, {str(n): "x" for n in range(100)})
    assert len(lines) == 21
    assert lines[-1] == "and 80 more"


@pytest.mark.parametrize("allowed", [False, True])
def test_a_worker_with_different_code_is_refused_unless_any_code_is_allowed(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importing.code_of
    monkeypatch.setattr(importing, "code_of", lambda text: {**real(text), "tests.cluster.parts": "another"})
    errors: list[WorkerError] = []

    async def story(world: World, cluster: LocalCluster, backend: SimBackend) -> None:
        backend.any_code = allowed
        try:
            await cluster.submit("sums", TARGET)
        except WorkerError as error:
            errors.append(error)

    with_workers(story)
    if allowed:
        assert not errors
    else:
        [error] = errors
        assert "has different code of this topology: install the same version on both" in str(error)
        assert "another in the worker" in str(error)
        assert len(str(error).splitlines()) == 2


@pytest.mark.parametrize(
    ("source", "imports"),
    [
        ("import a.b, c", ["a.b", "c"]),
        ("from a import b", ["a", "a.b"]),
        ("from . import b", ["shop.sub", "shop.sub.b"]),
        ("from ..c import d", ["shop.c", "shop.c.d"]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import t\nelse:\n    import e", ["e"]),
        ("if typing.TYPE_CHECKING:\n    import t\nelse:\n    import e", ["e"]),
        ("if FAST:\n    import f\nelse:\n    import e", ["e", "f"]),
        ("if sys.FAST:\n    import f", ["f"]),
        ("if fast():\n    import f", ["f"]),
        (
            "try:\n    import a\nexcept E:\n    import b\nelse:\n    import c\nfinally:\n    import d",
            ["a", "b", "c", "d"],
        ),
        ("with x:\n    import a\nfor y in z:\n    import b\nclass C:\n    import c", ["a", "b", "c"]),
        ("def f():\n    import a\nasync def g():\n    import b", []),
        ("import (", []),
    ],
)
def test_the_imports_of_a_source_are_those_at_its_top(source: str, imports: list[str]) -> None:
    digest, found = fingerprints._read(source.encode(), "shop.sub")  # pyright: ignore[reportPrivateUsage]
    assert [name for name in found if name not in ("typing", "typing.TYPE_CHECKING")] == imports
    assert len(digest) == 16


def test_a_relative_import_without_a_package_is_left_out() -> None:
    _, found = fingerprints._read(b"from . import b\nimport c", "")  # pyright: ignore[reportPrivateUsage]
    assert found == ("c",)


def test_a_target_that_is_not_imported_has_no_code() -> None:
    assert code_of("fp_nowhere.jobs:make") == {}


def test_a_package_without_a_distribution_has_the_version_that_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    version = fingerprints._version  # pyright: ignore[reportPrivateUsage]
    for name, says in (("fp_says", "1.2"), ("fp_silent", None)):
        module = ModuleType(name)
        if says is not None:
            module.__version__ = says  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    assert version("fp_says") == "1.2"
    assert version("fp_silent") == "of an unknown version"


def test_aiostorm_and_python_are_not_code_of_the_user(shop: Callable[..., dict[str, str]]) -> None:
    code = shop(settings="import json\nimport aiostorm.topology\nfrom aiostorm import Fields\nRATE = 3")
    assert not [name for name in code if "aiostorm" in name or "json" in name]

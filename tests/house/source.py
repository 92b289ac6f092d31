"""The checkout as data: its files, its packages, its map, and Python sources as syntax trees.

Everything here reads the working tree, so that a file counts from the moment it is saved, committed or not.
"""

from __future__ import annotations

import ast
import os
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "aiostorm"
NOT_PACKAGES = frozenset({PACKAGE, "benchmarks", "deploy", "docs", "examples", "tests"})
_NEVER_LISTED = frozenset({"__pycache__", "build", "dist", "venv", "uv.lock"})


def in_git() -> bool:
    """Is this a git checkout? An unpacked archive has no git, and the checks that ask it say so."""
    return (ROOT / ".git").exists()


def git(*arguments: str) -> str:
    """What git says."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


@cache
def files() -> tuple[str, ...]:
    """Every file that is tracked or would be (not ignored), links included, as POSIX paths from the root."""
    if in_git():
        listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    else:
        listed = list(_walk(ROOT))
    return tuple(sorted({name for name in listed if name and os.path.lexists(ROOT / name)}))


def _walk(folder: Path) -> Iterator[str]:
    for entry in sorted(folder.iterdir()):
        if (
            entry.name in _NEVER_LISTED
            or entry.suffix == ".egg-info"
            or entry.name.startswith(".") != (entry.name in (".ci", ".github", ".gitignore", ".editorconfig"))
        ):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _walk(entry)
        else:
            yield entry.relative_to(ROOT).as_posix()


def folders() -> list[str]:
    """The top-level folders that hold files of ours."""
    return sorted({name.split("/")[0] for name in files() if "/" in name and not name.startswith(".")})


@cache
def packages() -> tuple[str, ...]:
    """The package folders at the top."""
    return tuple(name for name in folders() if name not in NOT_PACKAGES)


@cache
def sub_packages() -> tuple[str, ...]:
    """The folders inside packages, and the one inside aiostorm/."""
    inits = (name.rpartition("/") for name in files() if name.count("/") == 2)
    return tuple(
        sorted(
            folder
            for folder, _, file in inits
            if file == "__init__.py" and folder.split("/")[0] in (PACKAGE, *packages())
        )
    )


def python_files(*tops: str) -> list[str]:
    """Python files below these top-level folders. Links are not followed: a file stands in its package once."""
    return [name for name in files() if name.endswith(".py") and name.split("/")[0] in tops]


def library_files() -> list[str]:
    """Python files that the wheel carries."""
    return python_files(PACKAGE, *packages())


def all_python_files() -> list[str]:
    """Python files of any kind, tests and tools included."""
    return [name for name in files() if name.endswith(".py")]


def read(name: str) -> str:
    """A file's text."""
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def pyproject() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads(read("pyproject.toml"))


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A Python file: where it stands, its text, its tree."""

    name: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        """Its top-level folder."""
        return self.name.split("/")[0]

    @staticmethod
    def of(text: str, name: str = "acker/sample.py") -> Source:
        """A source that stands nowhere: rules are tried on these."""
        return Source(name, text, ast.parse(text))


@cache
def nodes(of: Source) -> tuple[ast.AST, ...]:
    """Every node of its tree: each rule looks at them again."""
    return tuple(ast.walk(of.tree))


@cache
def source(name: str) -> Source:
    """A Python file, parsed once per session."""
    text = read(name)
    return Source(name, text, ast.parse(text, filename=name))


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """What is wrong, where, and what to do."""

    file: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}"


def no_faults(faults: Iterable[Fault]) -> None:
    """Fail with every fault, one a line."""
    found = sorted(set(faults))
    assert not found, f"{len(found)} found:\n" + "\n".join(map(str, found))


def public_names(package: str) -> list[str] | None:
    """`__all__` of a package as it is written; None where there is none, or where it is no plain list."""
    for node in source(f"{package}/__init__.py").tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List() | ast.Tuple() as value):
                return [str(ast.literal_eval(item)) for item in value.elts]
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.List() | ast.Tuple() as value):
                return [str(ast.literal_eval(item)) for item in value.elts]
    return None

"""Fingerprint: the code that a topology is made of, so that parent and workers cannot run different versions of it.

    target's module ─ imports at its top ─► modules of one's own, and their imports …: SHA-256 of each source
                                        ╰─► other packages: their versions

1. User modules are modules whose source is neither in site-packages, nor Python's, nor aiostorm's. They are found by
   the import statements at module level; imports inside functions may have run in one process only, so they are
   ignored.
2. The same files give the same fingerprint, whatever else a process has imported, and wherever the files are. Line
   endings do not matter.
3. Only the fingerprint is sent. If it differs, the worker sends its modules, and the parent reports the differences.

From: a trial in which a worker with another version of a module joined unnoticed.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import ModuleType
from typing import Any, Final

from .targets import Target, parse_target

ROOT: Final = "the module of the target"

_OURS: Final = __name__.partition(".")[0]
_PACKAGES: Final = ("site-packages", "dist-packages")
_DIGITS: Final = 16
_SHOWN: Final = 20


def code_of(text: str) -> dict[str, str]:
    """The code of an imported target: module → digest of its source, package → version."""
    target = parse_target(text)
    found: dict[str, str] = {}
    root = _root(target)
    if root is None:
        return found
    waiting = [(ROOT, root)]
    seen = {id(root)}
    while waiting:
        name, module = waiting.pop()
        source = _source(module)
        if source is None:
            continue
        digest, imports = _read(source, module.__package__ or "")
        found[name] = digest
        for wanted in imports:
            for imported in _loaded(wanted):
                kind = _kind(imported)
                if kind == "own" and id(imported) not in seen:
                    seen.add(id(imported))
                    waiting.append((imported.__name__, imported))
                elif kind == "package":
                    top = imported.__name__.partition(".")[0]
                    found[f"package {top}"] = _version(top)
    return found


def fingerprint(code: Mapping[str, str]) -> str:
    """The digest of all entries."""
    lines = "\n".join(f"{name} {what}" for name, what in sorted(code.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    """The differences, one line each."""
    names = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
    lines = [f"{name}: {here.get(name, 'missing')} here, {there.get(name, 'missing')} in the worker" for name in names]
    return lines[:_SHOWN] + ([f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else [])


# -- modules -----------------------------------------------------------------------------------------------------------


def _root(target: Target) -> ModuleType | None:
    """The module of a target, which may be the running program."""
    main = sys.modules.get("__main__")
    if target.file:
        path = os.path.realpath(target.file)
        files = (module for module in list(sys.modules.values()) if getattr(module, "__file__", None))
        return next((module for module in files if os.path.realpath(str(module.__file__)) == path), None)
    found = sys.modules.get(target.module)
    spec = getattr(main, "__spec__", None)
    if found is None and spec is not None and spec.name.removesuffix(".__main__") == target.module:
        return main
    return found


def _loaded(name: str) -> Iterator[ModuleType]:
    """A module, if it is imported, and its parent packages."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        module = sys.modules.get(".".join(parts[:count]))
        if module is not None:
            yield module


def _kind(module: ModuleType) -> str:
    top = module.__name__.partition(".")[0]
    if top in sys.stdlib_module_names or top == _OURS:
        return ""
    file = getattr(module, "__file__", None)
    if file is None:
        return ""  # a folder without __init__.py, or built in
    return "package" if any(part in _PACKAGES for part in str(file).replace(os.sep, "/").split("/")) else "own"


@lru_cache(maxsize=1024)
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # the distribution has another name
        return str(getattr(sys.modules.get(package), "__version__", "of an unknown version"))


# -- sources -----------------------------------------------------------------------------------------------------------


def _source(module: ModuleType) -> bytes | None:
    file = getattr(module, "__file__", None)
    if file is None or not str(file).endswith(".py"):
        return None
    loader: Any = getattr(module, "__loader__", None)
    try:
        if hasattr(loader, "get_data"):
            data: bytes = loader.get_data(file)  # also from a zip file
        else:
            with open(file, "rb") as opened:
                data = opened.read()
    except OSError:
        return None
    return data.replace(b"\r\n", b"\n")


@lru_cache(maxsize=4096)
def _read(source: bytes, package: str) -> tuple[str, tuple[str, ...]]:
    """The digest of a source, and the modules that it imports at module level."""
    digest = hashlib.sha256(source).hexdigest()[:_DIGITS]
    try:
        return digest, tuple(sorted(set(_imports(ast.parse(source).body, package))))
    except SyntaxError:
        return digest, ()


def _imports(body: Iterable[ast.stmt], package: str) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            start = "." * statement.level + (statement.module or "")
            name = importlib.util.resolve_name(start, package) if statement.level and package else start
            if not name.startswith("."):
                yield name
                yield from (f"{name}.{one.name}" for one in statement.names)
        elif isinstance(statement, ast.If) and _is_for_types(statement.test):
            yield from _imports(statement.orelse, package)
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            for block in ("body", "orelse", "finalbody"):
                yield from _imports(getattr(statement, block, ()), package)
            for handler in getattr(statement, "handlers", ()):
                yield from _imports(handler.body, package)


def _is_for_types(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )

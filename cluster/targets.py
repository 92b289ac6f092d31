"""Target: from an argument of the command line to a checked topology.

    pkg.mod                the attribute `topology` of a module
    pkg.mod:attr           another attribute (dots allowed)
    pkg.mod:make("a", n=3) what a function makes; its arguments are Python literals
    path/file.py[:…]       the same, of a file

1. The attribute is a Topology, a TopologyBuilder, or a callable that makes one. Words after the target are passed to
   the callable as strings.
2. Nothing on the command line is evaluated: arguments are literals (`ast.literal_eval`).
3. A missing module and a module that raises are different errors; each says where, and what to do.
4. The current directory (for a file: the file's directory too) is importable, as for `python -m`.

Import strings are those of uvicorn, calls with literals those of Flask.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING

from ..runtime import AiostormError
from ..topology import ConfigError, Topology, TopologyBuilder, TopologyError

if TYPE_CHECKING:
    from ..topology import Unchecked, Value

DEFAULT_ATTRIBUTE = "topology"

_FILE = re.compile(r"(?P<file>.+?\.py)(?::(?P<rest>.*))?", re.DOTALL)


class TargetError(AiostormError):
    """A target without a topology: why, and what to do. `__cause__` is the error of user code."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target with `file` or `module`; `arguments` is None if it has no parentheses."""

    text: str
    module: str = ""
    file: str = ""
    attribute: str = DEFAULT_ATTRIBUTE
    arguments: tuple[Value, ...] | None = None
    keywords: dict[str, Value] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The module or file, for people to read."""
        return self.file or self.module

    @property
    def default_name(self) -> str:
        """A name for a topology that has none."""
        return Path(self.file).stem if self.file else self.module.rpartition(".")[2]


def import_topology(text: str, arguments: Sequence[str] = (), *, own: bool = False) -> tuple[Target, Topology]:
    """Import a target and make its topology. Raises TargetError.

    `own`: as a worker does, for which a function that makes it must be one of the module's own.
    """
    target = parse_target(text)
    if target.arguments is not None and arguments:
        raise TargetError(
            f"{text} has its arguments in parentheses; {' '.join(map(repr, arguments))} cannot be given as well"
        )
    module = _import_file(target) if target.file else _import_module(target)
    found = _attribute(module, target)
    if own:
        _check_own(found, module, target)
    return target, _topology(found, target, arguments)


def is_named(text: str, named: Iterable[str]) -> bool:
    """May a worker started for the targets `named` import this one? A target without arguments allows any."""
    wanted = parse_target(text)
    for one in named:
        found = parse_target(one)
        same = (found.module, found.file, found.attribute) == (wanted.module, wanted.file, wanted.attribute)
        if one == text or (same and found.arguments is None):
            return True
    return False


def target_of(topology: Topology) -> str:
    """The import string of a topology that is an attribute of a module. TargetError if there is none."""
    for name, module in list(sys.modules.items()):
        for attribute, found in list(getattr(module, "__dict__", {}).items()):
            if found is topology and attribute.isidentifier():
                return _target_in(name, module, attribute)
    raise TargetError(
        "this topology is no attribute of any module, so workers cannot import it: make it one, or submit its import "
        'string, as in "package.module:topology" or "package.module:make" with arguments'
    )


def _target_in(name: str, module: ModuleType, attribute: str) -> str:
    if name != "__main__":
        return f"{name}:{attribute}"
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.name:  # python -m …
        return f"{spec.name.removesuffix('.__main__')}:{attribute}"
    file = getattr(module, "__file__", None)
    if file is None:
        raise TargetError("workers cannot import a topology that was typed in: put it into a file")
    return f"{os.path.abspath(file)}:{attribute}"


def parse_target(text: str) -> Target:
    """Parse an import string. TargetError if it is not valid."""
    match = _FILE.fullmatch(text)
    where, colon, rest = (match["file"], match["rest"] is not None, match["rest"] or "") if match else _split(text)
    if not match and not all(part.isidentifier() for part in where.split(".")):
        hint = f" (a file ends in .py: {where}.py)" if "/" in where or os.sep in where else ""
        raise TargetError(
            f"{text!r} is no target{hint}: expected MODULE[:ATTRIBUTE], as in examples.word_count:topology, or "
            "FILE.py[:ATTRIBUTE]"
        )
    attribute, arguments, keywords = _parse_attribute(text, rest) if colon else (DEFAULT_ATTRIBUTE, None, {})
    return Target(text, "" if match else where, where if match else "", attribute, arguments, keywords)


def _split(text: str) -> tuple[str, bool, str]:
    module, colon, rest = text.partition(":")
    return module, bool(colon), rest


def _parse_attribute(text: str, rest: str) -> tuple[str, tuple[Value, ...] | None, dict[str, Value]]:
    try:
        node = ast.parse(rest.strip(), mode="eval").body
    except SyntaxError:
        node = None
    name = _dotted(node.func if isinstance(node, ast.Call) else node)
    if name is None:
        raise TargetError(
            f'{text!r}: after the colon stands a NAME or a call of it with literals, as in make("a", n=3)'
        )
    if not isinstance(node, ast.Call):
        return name, None, {}
    try:
        if any(keyword.arg is None for keyword in node.keywords):
            raise ValueError("** has no place here")
        arguments = tuple(ast.literal_eval(argument) for argument in node.args)
        return name, arguments, {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords}
    except ValueError as error:
        raise TargetError(
            f"{text!r}: the arguments of {name} must be literals (text in quotes, numbers, True, None, lists, tuples, "
            "dicts); nothing else on a command line is evaluated"
        ) from error


def _dotted(node: ast.expr | None) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := _dotted(node.value)) is not None:
        return f"{head}.{node.attr}"
    return None


# -- importing ---------------------------------------------------------------------------------------------------------


def _import_module(target: Target) -> ModuleType:
    _importable(os.getcwd())
    name = target.module
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(missing + "."):
            raise TargetError(_not_found(name, missing)) from error
        raise _raised(f"module {name} cannot be imported", error) from error
    except (Exception, SystemExit) as error:
        raise _raised(f"module {name} cannot be imported", error) from error


def _import_file(target: Target) -> ModuleType:
    path = Path(target.file)
    if not path.is_file():
        siblings = sorted(p.name for p in path.parent.glob("*.py")) if path.parent.is_dir() else []
        raise TargetError(f"there is no file {target.file}{_hint(path.name, siblings)}")
    _importable(os.getcwd())
    _importable(str(path.resolve().parent))
    # Under its own name, so that its classes can be imported by it, unless the name is taken.
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"aiostorm_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{target.file} is no Python file: its name does not end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _raised(f"{target.file} cannot be imported", error) from error
    return module


def _importable(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _not_found(name: str, missing: str) -> str:
    """The error for a missing module: its first missing part, and what exists."""
    parent, _, last = missing.rpartition(".")
    folders: Iterable[str] | None = [os.getcwd()]
    if parent:
        folders = getattr(sys.modules.get(parent), "__path__", None)
        if folders is None:
            return f"there is no module {name}: {parent} is a module, not a package; an attribute follows a colon"
    there = sorted({module.name for module in pkgutil.iter_modules(folders)} | _plain_folders(folders or ()))
    rest = name[len(missing) :]
    close = [f"{parent + '.' if parent else ''}{near}{rest}" for near in difflib.get_close_matches(last, there, 1)]
    hint = f"did you mean {close[0]}?" if close else "it is looked for in the current directory and where Python looks"
    return f"there is no module {missing}; {hint}"


def _plain_folders(folders: Iterable[str]) -> set[str]:
    """Folders that may be packages without an __init__.py."""
    found = (path for folder in folders if os.path.isdir(folder) for path in Path(folder).iterdir() if path.is_dir())
    return {path.name for path in found if path.name.isidentifier() and not path.name.startswith("_")}


# -- the attribute -----------------------------------------------------------------------------------------------------


def _attribute(module: ModuleType, target: Target) -> Unchecked:
    found: Unchecked = module
    for part in target.attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            names = [name for name in vars(found) if not name.startswith("_")] if hasattr(found, "__dict__") else []
            makes = [name for name in names if isinstance(vars(found)[name], Topology | TopologyBuilder)]
            hint = _hint(part, names) or (f"; it has the topologies {', '.join(makes)}" if makes else "")
            where = target.where if target.file else f"{target.module}{_file_of(module)}"
            raise TargetError(f"{where} has no attribute {target.attribute!r}{hint}") from error
    return found


def _topology(found: Unchecked, target: Target, arguments: Sequence[str]) -> Topology:
    label = f"{target.where}:{target.attribute}"
    given = target.arguments if target.arguments is not None else tuple(arguments)
    if not isinstance(found, Topology | TopologyBuilder) and callable(found):
        _check_call(found, label, given, target.keywords)
        found = _attempt(f"{label} makes no topology", lambda: found(*given, **target.keywords))
        label = f"what {label} returned"
    elif given or target.keywords or target.arguments is not None:
        raise TargetError(f"{label} is a {type(found).__name__}, not a function: it takes no arguments")
    if isinstance(found, TopologyBuilder):
        found = _attempt(f"{label} makes no topology", found.create_topology)
    if isinstance(found, Topology):
        return found
    if inspect.iscoroutine(found):
        found.close()
        raise TargetError(f"{label} is a coroutine: a function that makes a topology is a plain def, not async def")
    raise TargetError(
        f"{label} is {'None' if found is None else f'of type {type(found).__name__}'}: "
        "it must be a Topology, a TopologyBuilder, or a function that returns one"
    )


def _check_call(make: Callable[..., object], label: str, given: Sequence[Value], keywords: dict[str, Value]) -> None:
    """Check the arguments before the call, so that a TypeError inside it is not mistaken."""
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):  # some builtins have no signature
        return
    try:
        signature.bind(*given, **keywords)
    except TypeError as error:
        raise TargetError(
            f"{label}{signature} cannot be called like that: {error}; give its arguments as words after the target, or "
            'as literals in parentheses: make("a", n=3)'
        ) from error


def _attempt(what: str, make: Callable[[], Unchecked]) -> Unchecked:
    try:
        return make()
    except (Exception, SystemExit) as error:
        raise _raised(what, error) from error


def _check_own(found: Unchecked, module: ModuleType, target: Target) -> None:
    if isinstance(found, Topology | TopologyBuilder):
        return
    defined = getattr(found, "__module__", None)
    if not isinstance(found, FunctionType | MethodType | type) or defined != module.__name__:
        raise TargetError(
            f"{target.where}:{target.attribute} is no topology, and no function that is defined in {module.__name__}: "
            "what workers import is one of both, named where it is defined"
        )


# -- messages ----------------------------------------------------------------------------------------------------------


def _raised(what: str, error: BaseException) -> TargetError:
    """The TargetError for an error of user code, with its line."""
    if isinstance(error, TopologyError | ConfigError):
        return TargetError(f"{what}: {error}")
    if isinstance(error, SystemExit):
        return TargetError(
            f"{what}: it exits (SystemExit: {error.code}) at {_place(error)}; a program's main part belongs under "
            '`if __name__ == "__main__":`'
        )
    text = str(error)
    return TargetError(f"{what}: {type(error).__name__}{': ' + text if text else ''} ({_place(error)})")


def _place(error: BaseException) -> str:
    """File and line of the user code that raised, relative to the current directory."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}, line {error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    if not frames:
        return "no line is known"
    # The innermost line of user code, for the line that raised may be in a library.
    own = [f for f in frames if _short(f.filename) != f.filename and "site-packages" not in f.filename]
    frame = (own or frames)[-1]
    return f"{_short(frame.filename)}, line {frame.lineno}"


def _file_of(module: ModuleType) -> str:
    """The file of a module in parentheses, or nothing: another module of that name may have been imported."""
    file = getattr(module, "__file__", None)
    return f" ({_short(file)})" if file else ""


def _short(filename: str) -> str:
    try:
        return str(Path(filename).relative_to(os.getcwd()))
    except ValueError:
        return filename


def _hint(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]}?" if near else ""

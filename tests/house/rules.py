"""The rules, each a function from a source to its faults. tests/house/test_rules.py shows each one biting.

Names are followed through imports: `from asyncio import wait_for as w` does not hide it. Attributes of objects are not:
`loop.create_task` is found by the name of what it is called on.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from functools import cache

from .source import PACKAGE, Fault, Source, nodes, packages, public_names, sub_packages
from .tables import (
    LOOP_OWNERS,
    MACHINE_BANS,
    MACHINES,
    MAX_FILE_LINES,
    MAX_FUNCTION_LINES,
    TASK_MAKERS,
)

Rule = Callable[[Source], Iterator[Fault]]

_CODE_LOADERS = ("pickle", "_pickle", "cPickle", "marshal", "shelve", "cloudpickle", "dill", "jsonpickle", "joblib")
_YAML_LOADERS = ("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.Loader", "yaml.UnsafeLoader")
_SHELLS = ("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "commands")
_LOOP_MAKERS = (
    "asyncio.run",
    "asyncio.Runner",
    "asyncio.get_event_loop",
    "asyncio.set_event_loop",
    "asyncio.get_event_loop_policy",
    "asyncio.set_event_loop_policy",
    "uvloop.run",
    "uvloop.install",
)


# -- asyncio -----------------------------------------------------------------------------------------------------------


def no_wait_for(source: Source) -> Iterator[Fault]:
    """asyncio.wait_for eats cancellations on Python 3.11."""
    for dotted, line in uses(source):
        if dotted == "asyncio.wait_for":
            yield Fault(
                source.name,
                line,
                "asyncio.wait_for swallows a cancel that arrives as the inner future ends (Python 3.11): "
                "use `async with asyncio.timeout(s):`",
            )


def no_bare_task(source: Source) -> Iterator[Fault]:
    """An asyncio task without a reference vanishes, and so does its exception."""
    if any(fnmatch(source.name, pattern) for pattern in TASK_MAKERS):
        return
    message = (
        "a bare asyncio task may vanish with its exception: start it in an `asyncio.TaskGroup` or under a guardian "
        "(`ActorSystem.guard`)"
    )
    started = [used for used in uses(source) if used[0] in ("asyncio.create_task", "asyncio.ensure_future")]
    started += [called for called in calls(source) if called[0] == "asyncio.Task"]
    for _, line in started:
        yield Fault(source.name, line, message)
    for node in nodes(source):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "create_task"
            and last_name(node.func.value).endswith("loop")
        ):
            yield Fault(source.name, node.lineno, message)


def no_own_loop(source: Source) -> Iterator[Fault]:
    """A library lives in its user's event loop. Programs may start one, examples only when run as a program."""
    if any(fnmatch(source.name, pattern) for pattern in LOOP_OWNERS):
        return
    allowed = _main_block(source) if source.package == "examples" else range(0)
    for dotted, line in uses(source):
        if dotted in _LOOP_MAKERS and line not in allowed:
            yield Fault(
                source.name,
                line,
                f"{dotted}: a library lives in its user's event loop; use `asyncio.get_running_loop()`. "
                "Only the command line, and an example's `__main__` block, start a loop",
            )


# -- purity ------------------------------------------------------------------------------------------------------------


def machines_are_pure(source: Source) -> Iterator[Fault]:
    """A machine gets time, chance and events as arguments."""
    if not any(fnmatch(source.name, pattern) for pattern in MACHINES):
        return
    for module, line in runtime_imports(source):
        top = module.split(".")[0]
        if top in MACHINE_BANS:
            yield Fault(
                source.name,
                line,
                f"a pure machine does not import {module}: pass the time, the chance or the event in as an argument, "
                "or move the shell to a module of its own (tests/house/tables.py lists the machines)",
            )


# -- what no file may do -----------------------------------------------------------------------------------------------


def no_code_loading(source: Source) -> Iterator[Fault]:
    """Bytes that come from elsewhere never become code."""
    for module, line in [*runtime_imports(source), *uses(source)]:
        top = module.split(".")[0]
        if top in _CODE_LOADERS:
            yield Fault(source.name, line, f"{top} runs code that comes with the data: use msgpack or JSON")
        elif module in _YAML_LOADERS:
            yield Fault(source.name, line, f"{module} can make any object: use yaml.safe_load")
        elif module in _SHELLS:
            yield Fault(source.name, line, f"{module} goes through a shell: start a program with a list of arguments")
    for node in nodes(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
            yield Fault(
                source.name, node.lineno, f"{node.func.id} runs text as code: parse it (ast.literal_eval at most)"
            )
        if isinstance(node, ast.keyword) and node.arg == "shell" and _is_true(node.value):
            yield Fault(source.name, node.value.lineno, "shell=True: start the program with a list of arguments")


def no_print(source: Source) -> Iterator[Fault]:
    """A library logs; only programs print."""
    if any(fnmatch(source.name, pattern) for pattern in LOOP_OWNERS):
        return
    for node in nodes(source):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield Fault(
                source.name, node.lineno, "print in library code: use logging, the standard output is the user's"
            )


def no_swallowing(source: Source) -> Iterator[Fault]:
    """An exception is handled, passed on or logged."""
    for node in nodes(source):
        if isinstance(node, ast.ExceptHandler):
            if node.type is None:
                yield Fault(source.name, node.lineno, "bare `except:` catches cancellation too: name the exceptions")
            elif _catches_all(node.type) and all(_does_nothing(step) for step in node.body):
                yield Fault(source.name, node.lineno, "swallows every exception: handle it, log it or let it pass")
        if (
            isinstance(node, ast.Call)
            and last_name(node.func) == "suppress"
            and any(_catches_all(argument) for argument in node.args)
        ):
            yield Fault(source.name, node.lineno, "suppresses every exception: name those that are expected")


def short_enough(source: Source) -> Iterator[Fault]:
    """A file is one concept; a function is read on one screen."""
    lines = source.text.count("\n")
    if lines > MAX_FILE_LINES:
        yield Fault(source.name, lines, f"{lines} lines: a file near 400 is two concepts, split it by concept")
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = _code_lines(node)
            if size > MAX_FUNCTION_LINES:
                yield Fault(
                    source.name, node.lineno, f"{node.name} has {size} lines: a function is read on one screen (60)"
                )


# -- public names ------------------------------------------------------------------------------------------------------


def imports_inside(source: Source) -> Iterator[Fault]:
    """In a package: other packages relatively, through their public API or that of a sub-package."""
    depth = source.name.count("/")
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in (PACKAGE, *packages()):
                    yield _inside(source, node.lineno, f"`import {alias.name}`")
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == 0 and module.split(".")[0] in (PACKAGE, *packages()):
                yield _inside(source, node.lineno, f"`from {module} import …`")
            elif node.level > depth:
                yield from _through_api(source, node, module, depth)


def _inside(source: Source, line: int, what: str) -> Fault:
    return Fault(
        source.name,
        line,
        f"{what} in a package: the package has two addresses then (aiostorm/package and package); "
        "import another package relatively, through its public API: `from ..package import name`",
    )


def _through_api(source: Source, node: ast.ImportFrom, module: str, depth: int) -> Iterator[Fault]:
    names = [alias.name for alias in node.names]
    folder = module.replace(".", "/")
    if node.level > depth + 1 or folder not in (*packages(), *sub_packages()):
        where = "." * node.level + module
        fix = "use public names, `from ..package import name`; a name that is not public may be made public there"
        if not module:
            fix = f"nothing shared lives in {PACKAGE}/; `from ..package import name`, not the package itself"
        yield Fault(source.name, node.lineno, f"`from {where} import {', '.join(names)}` is private: {fix}")
        return
    given = public_names(folder)
    for name in names:
        if given is not None and name not in given:
            yield Fault(
                source.name,
                node.lineno,
                f"{name} is not in __all__ of {folder}/__init__.py: let it give the name first",
            )


def imports_at_the_top(source: Source) -> Iterator[Fault]:
    """aiostorm/, too, imports public names only."""
    for node in nodes(source):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            out = source.name.count("/")  # so many dots lead to aiostorm/: from aiostorm/cli/ two
            parts = module.split(".") if node.level == out else module.split(".")[1:]
            if (node.level == out or module.split(".")[0] == PACKAGE) and parts[:1] and parts[0] in packages():
                if len(parts) > 1 and "/".join(parts) not in sub_packages():
                    yield Fault(
                        source.name, node.lineno, f"a private module of {parts[0]}: `from .{parts[0]} import name`"
                    )
            elif node.level == 0 and module.split(".")[0] in packages():
                yield Fault(
                    source.name, node.lineno, f"{module}: import packages as `from .{module.split('.')[0]} import …`"
                )


def imports_outside(source: Source, *, private_too: bool) -> Iterator[Fault]:
    """Tests, examples and documentation import what users import. Tests may import private modules."""
    for module, line in _absolute_imports(source):
        parts = module.split(".")
        if parts[0] in packages():
            yield Fault(
                source.name, line, f"{module}: import `{PACKAGE}.{module}`; packages at the top are not installed"
            )
        elif parts[0] == PACKAGE and len(parts) > 2 and not private_too:
            yield Fault(
                source.name,
                line,
                f"{module}: users import `{PACKAGE}` or a package, `{'.'.join(parts[:2])}`; what is behind may change",
            )


def _absolute_imports(source: Source) -> Iterator[tuple[str, int]]:
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module, node.lineno


# -- how names are followed --------------------------------------------------------------------------------------------


def calls(source: Source) -> Iterator[tuple[str, int]]:
    """(dotted name, line) of every call of an imported thing."""
    known = _imported_names(source)
    for node in nodes(source):
        if isinstance(node, ast.Call) and (dotted := _dotted(node.func)) and (origin := _origin(dotted, known)):
            yield origin, node.lineno


def runtime_imports(source: Source) -> Iterator[tuple[str, int]]:
    """(module, line) of each absolute import that is really run."""
    skipped = type_checking_lines(source)
    for module, line in _absolute_imports(source):
        if line not in skipped:
            yield module, line


@cache
def uses(source: Source) -> tuple[tuple[str, int], ...]:
    """(dotted name, line) of every use of an imported thing: `asyncio.run`, also as `from asyncio import run as r`."""
    known = _imported_names(source)
    return tuple((origin, line) for dotted, line in _chains(source.tree) if (origin := _origin(dotted, known)))


def _origin(dotted: str, known: dict[str, str]) -> str | None:
    head, _, rest = dotted.partition(".")
    return known[head] + ("." + rest if rest else "") if head in known else None


def _chains(tree: ast.AST) -> Iterator[tuple[str, int]]:
    left = [tree]
    while left:
        for child in ast.iter_child_nodes(left.pop()):
            dotted = _dotted(child)
            if dotted is not None:
                yield dotted, child.lineno  # type: ignore[attr-defined]
            else:
                left.append(child)


@cache
def _imported_names(source: Source) -> dict[str, str]:
    known: dict[str, str] = {}
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return known


def _dotted(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = _dotted(node.value)
        return None if head is None else f"{head}.{node.attr}"
    return None


def last_name(node: ast.expr) -> str:
    """`c` of `a.b.c` and of `a.b.c()`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return last_name(function)
    return ""


@cache
def type_checking_lines(source: Source) -> set[int]:
    """Lines that are never run: words for the type checkers."""
    lines: set[int] = set()
    for node in nodes(source):
        if isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING":
            for step in node.body:
                lines.update(range(step.lineno, (step.end_lineno or step.lineno) + 1))
    return lines


def _main_block(source: Source) -> range:
    for node in source.tree.body:
        match node:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                return range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return range(0)


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _catches_all(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple):
        return any(_catches_all(item) for item in node.elts)
    return last_name(node) in ("Exception", "BaseException")


def _does_nothing(step: ast.stmt) -> bool:
    return isinstance(step, ast.Pass | ast.Continue) or (
        isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)
    )


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    docstring = 0
    if ast.get_docstring(node, clean=False) is not None:
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring

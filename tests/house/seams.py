"""The rule of the seams: time, chance, network, disk, processes and threads are reached in few, named modules.

A simulation replaces those modules, and then controls all that makes two runs differ: what goes past them escapes it.

1. What is imported is followed to where it is used (see rules): tables.SEAMS.
2. Methods of objects are known by their names: `create_connection` and `read_text` are an event loop's and a path's,
   whatever they are called on. Names that others have too (`open`, `stat`) count where the file imports pathlib.
3. Of `os` everything counts but what is named as harmless: an unknown function counts. Where two lines of a
   table are about a name (`os` and `os.urandom`), the longer one decides.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch

from .rules import calls, last_name, runtime_imports, type_checking_lines, uses
from .source import Fault, Source, nodes
from .tables import HARMLESS, PATH_METHODS, SEAM_METHODS, SEAM_TYPES, SEAMS

_INSTEAD = (
    "Go through the seam (Clock, Rng, Store, Spawner of runtime, Network of transport), "
    "or make this module one in tests/house/tables.py and say why"
)


def seams_only(source: Source) -> Iterator[Fault]:
    """What reaches outside the process, or makes two runs differ, is touched in few, named modules."""
    yield from _imported(source)
    yield from _methods(source)


def _imported(source: Source) -> Iterator[Fault]:
    touched = [(dotted, line) for dotted, line in uses(source) if dotted not in SEAM_TYPES]
    touched += [(dotted, line) for dotted, line in calls(source) if dotted in SEAM_TYPES]
    used = {dotted for dotted, _ in uses(source)}
    touched += [
        (module, line)
        for module, line in runtime_imports(source)
        if not any(name.startswith(module + ".") for name in used)  # what is used is reported where it is used
    ]
    skipped = type_checking_lines(source)
    for dotted, line in touched:
        if line in skipped or _within(dotted, HARMLESS):
            continue
        seams = [seam for seam in SEAMS if _within(dotted, (seam,))]
        if seams:
            seam = max(seams, key=len)
            if not _stands_in(source, SEAMS[seam]):
                yield _fault(source, line, f"{dotted}: {seam}", SEAMS[seam])


def _methods(source: Source) -> Iterator[Fault]:
    has_paths = any(module == "pathlib" for module, _ in runtime_imports(source))
    for node in nodes(source):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                yield from _method(source, node, "open()", "the disk")
            case ast.Attribute(attr="time", value=owner) if last_name(owner).endswith(("loop", "super")):
                yield from _method(source, node, "the time of a loop", "the loop's time")
            case ast.Attribute(attr=name):
                for what, (names, _) in SEAM_METHODS.items():
                    if name in names or (what == "the disk" and has_paths and name in PATH_METHODS):
                        yield from _method(source, node, f".{name}", what)


def _method(source: Source, node: ast.expr, used: str, what: str) -> Iterator[Fault]:
    places = SEAM_METHODS[what][1]
    if not _stands_in(source, places):
        yield _fault(source, node.lineno, f"{used}: {what}", places)


def _within(dotted: str, seams: tuple[str, ...]) -> bool:
    return any(dotted == seam or dotted.startswith(seam + ".") for seam in seams)


def _stands_in(source: Source, places: tuple[str, ...]) -> bool:
    return any(fnmatch(source.name, place) for place in places)


def _fault(source: Source, line: int, what: str, places: tuple[str, ...]) -> Fault:
    return Fault(source.name, line, f"{what} is for {', '.join(places) or 'no module so far'} only. {_INSTEAD}")

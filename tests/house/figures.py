"""Figures about the code: `python -m tests.house.figures`; of another package: `python -m tests.house.figures FOLDER`.

How each is counted, so that other projects can be measured in the same way:

* lines: all lines of a file; functions: from `def` to the last line, without decorators and docstring;
* attributes: the names that the methods of one class assign to `self`, inherited ones not included;
* import depth: the longest chain of modules in which each imports the next when it is loaded. Imports in functions and
  under TYPE_CHECKING do not count. Modules that import each other in a circle count as one;
* comments: lines with a `#` comment, without those that are for tools (`noqa`, `type:`, `pragma`, `fmt:`, `!`).

docs/notes/structure.md has the figures of one commit.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .source import PACKAGE, ROOT, library_files

LONG_FUNCTION = 50
MANY_ATTRIBUTES = 10
_FOR_TOOLS = re.compile(r"#\s*(noqa|type:|pragma|fmt:|pyright:|mypy:|ruff:|!)")
_WORD = re.compile(r"\*\*([^*]+)\*\*")


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted."""

    files: int
    lines: int
    lines_median: int
    lines_most: int
    functions: int
    functions_long: int
    classes_wide: int
    attributes_most: int
    import_depth: int
    comments: int

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of each figure, for a table."""
        return [
            ("files / lines", f"{self.files:,} / {self.lines:,}"),
            ("lines a file: median / max", f"{self.lines_median} / {self.lines_most}"),
            (f"functions over {LONG_FUNCTION} lines", f"{self.functions_long / max(1, self.functions):.2%}"),
            (
                f"classes that assign more than {MANY_ATTRIBUTES} attributes; most",
                f"{self.classes_wide}; {self.attributes_most}",
            ),
            ("import depth", f"{self.import_depth}"),
            ("`#` comments in 100 lines", f"{100 * self.comments / max(1, self.lines):.1f}"),
        ]


def measure(modules: Mapping[str, str]) -> Figures:
    """The figures of modules: their texts by dotted name; a package's name ends in `.__init__`."""
    trees = {name: ast.parse(text) for name, text in modules.items()}
    lines = [text.count("\n") for text in modules.values()]
    functions = [length for tree in trees.values() for length in function_lengths(tree)]
    attributes = [count for tree in trees.values() for count in attribute_counts(tree)]
    return Figures(
        files=len(modules),
        lines=sum(lines),
        lines_median=round(statistics.median(lines)),
        lines_most=max(lines),
        functions=len(functions),
        functions_long=sum(length > LONG_FUNCTION for length in functions),
        classes_wide=sum(count > MANY_ATTRIBUTES for count in attributes),
        attributes_most=max(attributes, default=0),
        import_depth=depth(import_graph(trees)),
        comments=sum(map(comment_lines, modules.values())),
    )


def function_lengths(tree: ast.Module) -> Iterator[int]:
    """How many lines each function has, without decorators and docstring."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            has_docstring = ast.get_docstring(node, clean=False) is not None
            docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
            yield (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def attribute_counts(tree: ast.Module) -> Iterator[int]:
    """How many attributes the methods of each class assign to `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield len(
                {
                    target.attr
                    for method in node.body
                    if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
                    for target in ast.walk(method)
                    if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store)
                    if isinstance(target.value, ast.Name) and target.value.id == "self"
                }
            )


def comment_lines(text: str) -> int:
    """How many lines have a comment for readers."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(token.type == tokenize.COMMENT and not _FOR_TOOLS.match(token.string) for token in tokens)


def import_graph(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Module → the modules that it imports when it is loaded."""
    return {
        name: {target for node in _loaded(tree.body) for target in _targets(node, name, trees)} - {name}
        for name, tree in trees.items()
    }


def _loaded(body: Iterable[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when a module is loaded."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from _loaded(node.body)
            yield from _loaded(node.orelse)
        elif isinstance(node, ast.Try):
            yield from _loaded([*node.body, *(line for handler in node.handlers for line in handler.body)])


def _targets(node: ast.Import | ast.ImportFrom, name: str, known: Mapping[str, ast.Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        candidates = [(alias.name,) for alias in node.names]
    else:
        start = ".".join(name.split(".")[: -node.level]) if node.level else ""
        base = ".".join(part for part in (start, node.module) if part)
        candidates = [(f"{base}.{alias.name}", base) for alias in node.names]
    for names in candidates:
        found = (found for wanted in names for found in (wanted, f"{wanted}.__init__") if found in known)
        yield from [*found][:1]


def depth(graph: Mapping[str, Iterable[str]]) -> int:
    """The number of modules in the longest chain, where a circle counts as one module."""
    return len(longest_chain(graph))


def longest_chain(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Modules of which each imports the next. Of a circle, it has one."""
    found = circles(graph)
    circle = {module: number for number, members in enumerate(found) for module in members}
    longest: list[list[str]] = []
    for number, members in enumerate(found):  # each comes behind all that it imports
        below = {circle[target] for module in members for target in graph[module]} - {number}
        longest.append([members[0], *max((longest[other] for other in sorted(below)), key=len, default=[])])
    return max(longest, key=len, default=[])


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components, each behind those that it leads to (Tarjan, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    placed: set[str] = set()
    for start in graph:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        stack.append(start)
        path = [(start, iter(graph[start]))]
        while path:
            module, targets = path[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    path.append((target, iter(graph[target])))
                    break
                if target not in placed:
                    low[module] = min(low[module], index[target])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[module])
                if low[module] == index[module]:
                    members = stack[stack.index(module) :]
                    del stack[stack.index(module) :]
                    placed.update(members)
                    found.append(members)
    return found


def glossary_words(page: str) -> list[str]:
    """The words that a glossary explains: what is bold in the first column of its tables."""
    return [word for line in page.splitlines() if line.startswith("| **") for word in _WORD.findall(line.split("|")[1])]


def ours() -> dict[str, str]:
    """Our modules, by the names under which users import them."""
    names = {name: name if name.startswith(f"{PACKAGE}/") else f"{PACKAGE}/{name}" for name in library_files()}
    return {
        dotted.removesuffix(".py").replace("/", "."): (ROOT / name).read_text("utf-8") for name, dotted in names.items()
    }


def _theirs(folder: Path) -> dict[str, str]:
    """The modules of a package, without its tests."""
    return {
        ".".join((folder.name, *path.relative_to(folder).with_suffix("").parts)): path.read_text("utf-8")
        for path in sorted(folder.rglob("*.py"))
        if not {"tests", "_tests", "test", "testing"} & set(path.relative_to(folder).parts)
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for this project, or for each of the given package folders."""
    parser = argparse.ArgumentParser(prog="python -m tests.house.figures", description="Count what the code is like.")
    parser.add_argument("folder", nargs="*", type=Path, help="a package (default: aiostorm)")
    given = parser.parse_args(arguments).folder
    for folder in given or [None]:
        rows = measure(_theirs(folder.resolve()) if folder else ours()).rows()
        if folder is None:
            words = glossary_words((ROOT / "docs/glossary.md").read_text("utf-8"))
            rows.append(("words in the glossary", f"{len(words)}"))
        print(f"| | {folder.name if folder else PACKAGE} |\n|---|---|")
        print("\n".join(f"| {name} | {value} |" for name, value in rows))


if __name__ == "__main__":
    main()

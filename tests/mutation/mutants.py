"""Mutants: copies of a module with one small change each. Pure: source in, sources out.

The changes are made in the text, at the place of a node of the syntax tree, so that a diff shows nothing else:

    comparisons         a < b → a <= b, a >= b; == ↔ !=; is ↔ is not; in ↔ not in
    boolean operators   and ↔ or; each operand left out; not left out
    branches            if, conditional expressions, conditions of comprehensions and of cases: negated
    arithmetic          + ↔ -, * ↔ //, and so on, also in `a += b`; a sign left out
    numbers             n + 1, n - 1; twice a fraction; True ↔ False; one more as the bound of a slice or a range
    calls               min ↔ max, any ↔ all, floor ↔ ceil; the other end of a deque
    statements          left out: calls, assignments to attributes and items, del, raise, return, continue, break
    returned values     negated, if the function says bool; else None

Not changed: texts, annotations, decorators, assertions, defaults of `strict=`, what only a type checker reads, and the
first assignments of `__init__` (without them nearly every test fails).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COMPUTED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
CALLED: Final = {"min": "max", "any": "all", "floor": "ceil", "popleft": "pop", "appendleft": "append"}
CALLED_TOO: Final = CALLED | {"max": "min", "all": "any", "ceil": "floor"}
TEXTS: Final = ("__repr__", "__str__")
"""Functions that only make texts."""


Key = tuple[str, str, str, str, int]
"""File, function, the changed lines before and after, occurrence: no two mutants of a module have the same."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one change. `function` is the innermost function around it, '' if there is none.

    `occurrence` counts the mutants of a function that have the same `before` and `after` (1, 2, …); 0: the only one.
    """

    file: str
    line: int
    function: str
    before: str
    after: str
    source: str
    occurrence: int = 0

    @property
    def key(self) -> Key:
        """What the list of equivalent mutants calls it: it stays the same when other lines are added."""
        return (self.file, self.function, self.before, self.after, self.occurrence)


def mutants(file: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of their lines; of equal ones the first."""
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    found: dict[str, Mutant] = {}
    for node, text, function in finder.changes:
        mutated, before, after = finder.text.replaced(node, text)
        if mutated != source:
            found.setdefault(mutated, Mutant(file, node.lineno, function, before, after, mutated))
    in_order = sorted(found.values(), key=lambda mutant: mutant.line)
    count = Counter(mutant.key for mutant in in_order)
    before: Counter[Key] = Counter()
    for place, mutant in enumerate(in_order):
        if count[mutant.key] > 1:
            before[mutant.key] += 1
            in_order[place] = replace(mutant, occurrence=before[mutant.key])
    return in_order


class _Text:
    """The source, in which positions are bytes."""

    def __init__(self, source: str) -> None:
        self.lines = [line.encode() for line in source.splitlines(keepends=True)]

    def replaced(self, node: ast.expr | ast.stmt, text: str) -> tuple[str, str, str]:
        """The source with this node replaced, and the changed lines before and after."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        old = self.lines[first : last + 1]
        begin, end = old[0][: node.col_offset], old[-1][node.end_col_offset :]
        new = (begin + text.encode() + end).decode()
        lines = [*self.lines[:first], new.encode(), *self.lines[last + 1 :]]
        return b"".join(lines).decode(), _on_one_line(b"".join(old).decode()), _on_one_line(new)


def _on_one_line(lines: str) -> str:
    return " ".join(lines.split())


class _Finder(ast.NodeVisitor):
    """Collects changes: the node to replace, the new text, and the function around it."""

    def __init__(self, source: str) -> None:
        self.text = _Text(source)
        self.changes: list[tuple[ast.expr | ast.stmt, str, str]] = []
        self._scopes: list[str] = []
        self._functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []

    def _change(self, node: ast.expr | ast.stmt, text: str) -> None:
        function = self._scopes[-1] if self._functions and self._scopes else ""
        self.changes.append((node, text, function))

    def _replace(self, node: ast.expr, new: ast.expr) -> None:
        self._change(node, f"({ast.unparse(new)})")

    def _negate(self, test: ast.expr) -> None:
        # A comparison and `not` have mutants of their own that mean the same.
        if not (isinstance(test, ast.Compare) and len(test.ops) == 1) and not _is_not(test):
            self._change(test, f"(not ({ast.unparse(test)}))")

    # -- scopes, and what is not changed -------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in TEXTS:
            return
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        outer = self._scopes[-1] if self._scopes else ""
        middle = "." if outer and not self._functions else ".<locals>." if outer else ""
        self._scopes.append(f"{outer}{middle}{node.name}")
        self._functions.append(node)
        for statement in node.body:
            self.visit(statement)
        self._functions.pop()
        self._scopes.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer = self._scopes[-1] if self._scopes else ""
        self._scopes.append(f"{outer}{'.' if outer else ''}{node.name}")
        functions, self._functions = self._functions, []
        for statement in node.body:
            self.visit(statement)
        self._functions = functions
        self._scopes.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
        self._without_assignment(node, [node.target])

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """A text (and with Python 3.11 its parts have no positions)."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """It says what always holds."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":
            self.visit(node.value)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        self.generic_visit(node)
        for at, op in enumerate(node.ops):
            for other in COMPARED[type(op)]:
                new = copy.copy(node)
                new.ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
                self._replace(node, new)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        self.generic_visit(node)
        self._replace(node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values))
        for at in range(len(node.values)):
            left = node.values[:at] + node.values[at + 1 :]
            self._replace(node, left[0] if len(left) == 1 else ast.BoolOp(node.op, left))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not | ast.USub):
            self._replace(node, node.operand)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.generic_visit(node)
        if type(node.op) in COMPUTED:
            self._replace(node, ast.BinOp(node.left, COMPUTED[type(node.op)](), node.right))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.generic_visit(node)
        self._negate(node.test)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        new = copy.copy(node)
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            new.args = [*node.args[:-1], ast.BinOp(node.args[-1], ast.Add(), ast.Constant(1))]
            if not isinstance(node.args[-1], ast.Constant | ast.Starred):
                self._replace(node, new)
        elif isinstance(node.func, ast.Name) and node.func.id in CALLED_TOO:
            new.func = ast.Name(CALLED_TOO[node.func.id])
            self._replace(node, new)
        elif isinstance(node.func, ast.Attribute) and node.func.attr in CALLED_TOO:
            new.func = ast.Attribute(node.func.value, CALLED_TOO[node.func.attr])
            self._replace(node, new)

    def visit_Slice(self, node: ast.Slice) -> None:
        self.generic_visit(node)
        for bound in (node.lower, node.upper):
            if bound is not None and not isinstance(bound, ast.Constant | ast.UnaryOp):
                self._replace(bound, ast.BinOp(bound, ast.Add(), ast.Constant(1)))

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._change(node, str(not value))
        elif isinstance(value, int):
            self._change(node, str(value + 1))
            if value > 0:
                self._change(node, str(value - 1))
        elif isinstance(value, float):
            self._change(node, str(value * 2 or 1.0))

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.generic_visit(node)
        for test in node.ifs:
            self._negate(test)

    # -- statements ----------------------------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self.generic_visit(node)
        self._negate(node.test)

    def visit_match_case(self, node: ast.match_case) -> None:
        for statement in node.body:
            self.visit(statement)
        if node.guard is not None:
            self.visit(node.guard)
            self._negate(node.guard)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)
            if isinstance(node.value, ast.Call | ast.Await):
                self._change(node, "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id in ("__all__", "__slots__"):
            return
        self.visit(node.value)
        self._without_assignment(node, node.targets)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if type(node.op) in COMPUTED:
            new = ast.AugAssign(node.target, COMPUTED[type(node.op)](), node.value)
            self._change(node, ast.unparse(new))
        self._change(node, "pass")

    def _without_assignment(self, node: ast.stmt, targets: list[ast.expr]) -> None:
        in_init = bool(self._functions) and self._functions[-1].name == "__init__"
        stored = [part for target in targets for part in _parts(target)]
        if self._functions and not in_init and all(isinstance(t, ast.Attribute | ast.Subscript) for t in stored):
            self._change(node, "pass")

    def visit_Delete(self, node: ast.Delete) -> None:
        self._change(node, "pass")

    def visit_Raise(self, node: ast.Raise) -> None:
        self._change(node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._change(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._change(node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._change(node, "pass")
            return
        self.visit(node.value)
        value, returns = node.value, self._functions[-1].returns
        if isinstance(value, ast.Constant) and (value.value is None or isinstance(value.value, bool)):
            return
        if isinstance(returns, ast.Name) and returns.id == "bool":
            self._negate(value)
        else:
            self._change(node, "return None")


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _parts(part)
    else:
        yield target


def _is_not(test: ast.expr) -> bool:
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)

"""The arguments of `@pytest.mark.simulate(…)`, checked.

1. An invalid argument is a ScriptError that says what is allowed; the plugin shows it when it collects the test.
2. A nodeid that names a seed (`test_x[seed-777]`) has this seed, whatever the marker says: a failure of a long run can
   be repeated by its name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..errors import ScriptError
from .faults import kinds_of
from .loop import ORDERS

SEEDS: Final = 20
_KNOWN: Final = ("seeds", "faults", "first", "order", "max_steps")
_NAMED: Final = re.compile(r"(?:^|-)seed-(-?\d+)(?=-|$)")


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The seeds of one test, the kinds of faults, and the options of its worlds."""

    seeds: tuple[int, ...]
    faults: tuple[str, ...]
    world: Mapping[str, Any]


def parse_options(args: Sequence[Any], kwargs: Mapping[str, Any], seeds: int | None = None) -> SimulationOptions:
    """The options that these arguments of the marker mean; `seeds`: this number instead of the test's own."""
    unknown = [name for name in kwargs if name not in _KNOWN]
    if args or unknown:
        wrong = ", ".join([*map(repr, args), *unknown])
        raise ScriptError(f"simulate takes keyword arguments only: {', '.join(_KNOWN)}; not {wrong}")
    order, first = kwargs.get("order"), kwargs.get("first", 0)
    if order is not None and order not in ORDERS:
        raise ScriptError(f"no such order: {order!r}; there are: {', '.join(ORDERS)}; None: the seed chooses")
    if not _is_number(first):
        raise ScriptError(f"first is the number of a seed, not {first!r}")
    world = {name: kwargs[name] for name in ("order", "max_steps") if kwargs.get(name) is not None}
    return SimulationOptions(_seeds(kwargs.get("seeds", SEEDS), first, seeds), _faults(kwargs.get("faults")), world)


def named_seeds(test: str, nodeids: Iterable[str]) -> list[int]:
    """The seeds of this test that nodeids name: "a.py::test[seed-7-x]" names 7 of "test"."""
    found: list[int] = []
    for nodeid in nodeids:
        named = re.search(rf"::{re.escape(test)}\[(.*)\]$", nodeid, re.DOTALL)
        if named is not None:
            found += map(int, _NAMED.findall(named[1]))
    return found


def _seeds(asked: Any, first: int, instead: int | None) -> tuple[int, ...]:
    if _is_number(asked):
        seeds = list(range(first, first + asked))
    elif isinstance(asked, Iterable) and not isinstance(asked, str | bytes):
        seeds = list(dict.fromkeys(asked))
        wrong = [seed for seed in seeds if not _is_number(seed)]
        if wrong:
            raise ScriptError(f"seeds are whole numbers, not {', '.join(map(repr, wrong))}")
    else:
        raise ScriptError(f"seeds is how many, or which ones; not {asked!r}")
    if not seeds:
        raise ScriptError(f"a simulated test has one seed at least; seeds={asked!r} has none")
    return tuple(range(first, first + instead)) if instead is not None else tuple(seeds)


def _faults(asked: Any) -> tuple[str, ...]:
    if asked is not None and not isinstance(asked, str | Collection):
        raise ScriptError(f"faults names kinds of faults, 'all' or 'none'; it is not {asked!r}")
    return kinds_of(asked)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

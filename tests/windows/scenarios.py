"""@scenario: names the test of Storm or JStorm on which a test here is based; and the table of them all.

`python -m tests.windows.scenarios` writes the table into docs/notes/window-scenarios.md anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

PAGE: Final = Path(__file__).parents[2] / "docs" / "notes" / "window-scenarios.md"
TITLE: Final = "## Scenarios from Storm"
WRITE: Final = "python -m tests.windows.scenarios"

_CLIENT = "apache/storm:storm-client/test/jvm/org/apache/storm"
_CODE = "apache/storm:storm-client/src/jvm/org/apache/storm"
_STARTER = "apache/storm:examples/storm-starter/test/jvm/org/apache/storm/starter"
_INTEGRATION = "apache/storm:integration-test/src/test/java/org/apache/storm/st/tests/window"
_JSTORM = "alibaba/jstorm:jstorm-core/src/main/java/com/alibaba/jstorm/window"
_JSTORM_UNIT = "alibaba/jstorm:example/sequence-split-merge/src/test/java/com/jstorm/example/unittests"

SOURCES: Final = {
    "JoinBolt (code)": f"{_CODE}/bolt/JoinBolt.java",
    "JStorm EventTimeTrigger (code)": f"{_JSTORM}/EventTimeTrigger.java",
    "JStorm SlidingCountWindows (code)": f"{_JSTORM}/SlidingCountWindows.java",
    "JStorm SlidingTupleTsTopologyTest": f"{_JSTORM_UNIT}/window/SlidingTupleTsTopologyTest.java",
    "JStorm SlidingWindowTopologyTest": f"{_JSTORM_UNIT}/window/SlidingWindowTopologyTest.java",
    "JStorm TimeWindow (code)": f"{_JSTORM}/TimeWindow.java",
    "JStorm TridentSlidingCountWindowTest": f"{_JSTORM_UNIT}/trident/TridentSlidingCountWindowTest.java",
    "JStorm WatermarkTriggerPolicy (code)": f"{_JSTORM}/WatermarkTriggerPolicy.java",
    "JStorm WindowedBoltExecutor (code)": f"{_JSTORM}/WindowedBoltExecutor.java",
    "PersistentWindowedBoltExecutorTest": f"{_CLIENT}/topology/PersistentWindowedBoltExecutorTest.java",
    "SimpleWindowPartitionCacheTest": f"{_CLIENT}/topology/SimpleWindowPartitionCacheTest.java",
    "SlidingWindowCounterTest": f"{_STARTER}/tools/SlidingWindowCounterTest.java",
    "SlidingWindowTest": f"{_INTEGRATION}/SlidingWindowTest.java",
    "TestJoinBolt": f"{_CLIENT}/bolt/TestJoinBolt.java",
    "TridentWindowingTest": f"{_CLIENT}/trident/TridentWindowingTest.java",
    "TumblingWindowTest": f"{_INTEGRATION}/TumblingWindowTest.java",
    "WaterMarkEventGeneratorTest": f"{_CLIENT}/windowing/WaterMarkEventGeneratorTest.java",
    "WindowedBoltExecutor (code)": f"{_CODE}/topology/WindowedBoltExecutor.java",
    "WindowedBoltExecutorTest": f"{_CLIENT}/topology/WindowedBoltExecutorTest.java",
    "WindowedProcessorBoltTest": f"{_CLIENT}/streams/WindowedProcessorBoltTest.java",
    "WindowManagerTest": f"{_CLIENT}/windowing/WindowManagerTest.java",
}
"""A short name → repository and path. "code": not a test, but the class itself, which has none there."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """`source` is "file#test". `ours` and `why` only where it is something else than `theirs`."""

    name: str
    source: str
    theirs: str
    ours: str = ""
    why: str = ""


def scenario(name: str, source: str, theirs: str, ours: str = "", why: str = "") -> Callable[[F], F]:
    """Mark a test."""

    def mark(test: F) -> F:
        test.scenario = Scenario(name, source, theirs, ours, why)  # type: ignore[attr-defined]
        return test

    return mark


def marked() -> Iterator[tuple[str, str, Any]]:
    """File, name and test of all in test_storm*.py, as they stand there."""
    for path in sorted(Path(__file__).parent.glob("test_storm*.py")):
        found = [(name, test) for name, test in vars(import_module(f"{__package__}.{path.stem}")).items()]
        found = [(name, test) for name, test in found if name.startswith("test_") and hasattr(test, "scenario")]
        for name, test in sorted(found, key=lambda item: inspect.unwrap(item[1]).__code__.co_firstlineno):
            yield path.name, name, test


def section() -> str:
    """The part of docs/notes/window-scenarios.md."""
    every = [test.scenario for _, _, test in marked()]
    departing = sum(1 for one in every if one.why)
    head = (
        f"{len(every)} scenarios from Storm's and JStorm's own tests of windows, with the same numbers, written as "
        f"tests of aiostorm. In {len(every) - departing} the result is the same as in the original; in {departing} it "
        "differs, and the last column says why. A range such as 1–4 names the rows of a window, by number or by "
        f"timestamp. This part of the page is generated: `{WRITE}` writes it from the tests."
    )
    lines = [
        TITLE,
        "",
        *wrap(head, 120),
        "",
        "| scenario | original test | result there | result here | why it differs |",
        "|---|---|---|---|---|",
    ]
    for _, _, test in marked():
        one = test.scenario
        source = one.source.replace("#", " ")
        lines.append(f"| {one.name} | {source} | {one.theirs} | {one.ours or 'the same'} | {one.why} |")
    lines += ["", "| source | file |", "|---|---|"]
    lines += [f"| {name} | `{path}` |" for name, path in SOURCES.items()]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with this section as it is now, where it stands or at the end."""
    before, title, rest = page.partition(f"{TITLE}\n")
    if not title:
        return f"{page.rstrip()}\n\n{section()}"
    _, next_title, after = rest.partition("\n## ")
    return before + section() + (f"\n## {after}" if next_title else "")


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{PAGE}: {len(list(marked()))} scenarios")

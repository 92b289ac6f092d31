"""Rows run in children of their own: what fails is reported, what cannot be installed too, and the rest goes on."""

from __future__ import annotations

import ast
import gc
import sys
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks import child, w1, w3, w5
from benchmarks.__main__ import chosen
from benchmarks.cells import Cell, Figure, Item, Probe, Row, WrongResultError
from benchmarks.environments import PEERS, Peer, UnavailableError, python_of
from benchmarks.harness import run
from benchmarks.rows import all_items

ROOT = Path(__file__).resolve().parents[2]
LIMIT = Cell("benchmarks.w3", "nested_calls")
GOOD = Row("w3", "good", LIMIT, LIMIT, "itself", "tuples", 500, rounds=1)
BAD = Row("w3", "bad", Cell("benchmarks.w3", "nowhere"), LIMIT, "nothing", "tuples", 500, rounds=1)
PROBE = Probe("w5", "limit", Cell("benchmarks.w5", "dict_of_windows"), 500, (Figure("rate", "events/s"),))
IN_PEERS = ("__init__", "cells", "child", "clocking", "w1", "w3", "w4", "w5", "w6")
"""Modules that a peer's Python imports."""


@pytest.mark.sockets
def test_a_failing_benchmark_is_left_out_and_the_others_run():
    said: list[str] = []
    result = run([BAD, GOOD, PROBE], 2, quick=True, say=said.append)
    assert {name: len(records) for name, records in result.records.items()} == {GOOD.id: 2, PROBE.id: 2}
    assert "nowhere" in result.failed[BAD.id]
    assert sum("FAILED" in line for line in said) == 1
    assert not result.interrupted


@pytest.mark.sockets
def test_an_environment_with_these_pins_is_used_again(tmp_path: Path):
    python = tmp_path / "peer" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "peer" / "pins.json").write_text('["thing==1"]', encoding="utf-8")
    said: list[str] = []
    assert python_of("peer", said.append, peers={"peer": Peer(("thing==1",), "thing")}, home=tmp_path) == python
    assert not said


@pytest.mark.sockets
def test_a_peer_that_cannot_be_installed_is_reported_with_the_reason(tmp_path: Path):
    peers = {"peer": Peer((f"thing @ {(tmp_path / 'nothing').as_uri()}",), "thing")}
    with pytest.raises(UnavailableError, match=r"this Python: .+|uv, which makes"):
        python_of("peer", lambda _: None, peers=peers, home=tmp_path)
    assert not (tmp_path / "peer" / "pins.json").exists()


def test_every_cell_exists():
    for item in all_items():
        for cell in (item.subject, item.against) if isinstance(item, Row) else (item.subject,):
            if cell.env:
                assert cell.env in PEERS
                text = (ROOT / f"{cell.module.replace('.', '/')}.py").read_text(encoding="utf-8")
                names = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
                assert cell.function in names, item.id
            else:
                assert callable(getattr(import_module(cell.module), cell.function)), item.id


def test_a_peer_brings_the_row_of_ours_that_it_is_compared_with():
    items = all_items()
    picked = [item.id for item in chosen(items, ["w1/streamz"], peers=True)]
    assert picked == ["w1/batches, at least once", "w1/streamz, map, flatten, sink"]
    assert not any(item.subject.env for item in chosen(items, [], peers=False))
    assert _counterparts(items) <= {item.id for item in items}


def _counterparts(items: list[Item]) -> set[str]:
    return {item.ours for item in items if isinstance(item, Row) and item.ours}


@pytest.mark.parametrize("name", IN_PEERS)
def test_a_peer_needs_nothing_but_the_standard_library(name: str):
    tree = ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"))
    imported = [
        module
        for node in tree.body
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom) and not node.level
            else []
        )
    ]
    assert {module.partition(".")[0] for module in imported} <= sys.stdlib_module_names
    relative = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level]
    assert {node.module for node in relative} <= set(IN_PEERS)


def test_the_garbage_collector_is_set_back():
    before = gc.get_threshold()
    try:
        with child.collecting("frozen, thresholds"):
            assert gc.get_threshold() == (50_000, 20, 100)
            assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == before
        assert gc.get_freeze_count() == 0
    finally:
        gc.set_threshold(*before)


def test_oracles_refuse_wrong_results():
    assert child.run(Cell("benchmarks.w5", "dict_of_windows"), 2_000).seen["late"] > 0
    given = w5.events(2_000)
    windows = dict(given.expected)
    key, (total, count) = next(iter(windows.items()))
    with pytest.raises(WrongResultError):
        given.check({**windows, key: (total + 1, count)})
    corpus = w1.corpus(100)
    with pytest.raises(WrongResultError):
        corpus.check({**corpus.expected, "another": 1})
    with pytest.raises(WrongResultError):
        w3.check(3, 3, 4)


@pytest.mark.parametrize("tasks", [1, 4])
def test_ours_drops_what_comes_behind_the_end_of_its_window_and_nothing_else(tasks: int):
    closed = sum(count for _, count in w5.events(50_000).closed.values())
    cell = Cell("benchmarks.adapters.ours_w5", "windows", {"tasks": tasks, "loop": "asyncio"})
    assert child.run(cell, 50_000).seen["dropped"] == closed > 0


def test_the_oracle_of_windows_knows_what_may_be_missing():
    given = w5.events(50_000)  # 50 s: some windows close
    whole = {(key, start): (key, start, *row) for (key, start), row in given.expected.items()}
    assert given.check_results(whole.values(), late=[], by="window") == 0
    late, row = next(iter(given.closed.items()))
    total, count = given.expected[late]
    without = {**whole, late: (*late, total - row[0], count - row[1])}
    assert given.check_results(without.values(), by="window") == row[1]
    with pytest.raises(WrongResultError):  # it was not reported
        given.check_results(without.values(), late=[], by="window")
    on_time = next(window for window in given.expected if window not in given.late)
    for wrong in (
        [*whole.values(), whole[late]],
        [*whole.values(), ("unknown", 0, 1, 1)],
        [result for window, result in whole.items() if window != on_time],
        {**whole, late: (*late, total + 1, count)}.values(),
    ):
        with pytest.raises(WrongResultError):
            given.check_results(wrong, by="time")
    open_late = next(window for window in given.late if window not in given.closed)
    with pytest.raises(WrongResultError):  # late by its time, but not by its window
        given.check_results([result for window, result in whole.items() if window != open_late], by="window")

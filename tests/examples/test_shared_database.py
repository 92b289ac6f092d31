"""All orders are in the database, once, from all workers; a worker has one connection; a test gives a fake."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from aiostorm.testing import complete_topology

from . import load
from .test_examples import run

example = load("shared_database")


def written(path: Path) -> dict[int, tuple[str, int]]:
    connection = sqlite3.connect(path)
    try:
        return {n: (customer, cents) for n, customer, cents in connection.execute("SELECT * FROM orders")}
    finally:
        connection.close()


@pytest.mark.sockets
@pytest.mark.parametrize("workers", [0, 2])
def test_each_worker_has_one_connection(workers: int, tmp_path: Path) -> None:
    path = tmp_path / "orders.db"
    spread = ["--workers", str(workers)] if workers else []
    done = run("-m", "aiostorm", "run", *spread, "examples.shared_database:topology", str(path), "--json", "-q")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)["summary"]
    assert summary == {"orders saved": example.ORDERS, "tasks": 4, "connections": workers or 1}
    assert written(path) == {number: (customer, cents) for number, customer, cents in example.orders()}


class Fake:
    """A database that refuses the first transaction."""

    def __init__(self) -> None:
        self.saved: list[tuple[int, str, int]] = []
        self.refusals = 1

    async def save(self, orders: list[Any]) -> None:
        if self.refusals:
            self.refusals -= 1
            raise ConnectionError("the database starts")
        self.saved += orders


async def test_refused_rows_are_replayed() -> None:
    fake = Fake()
    rows = [(1, "a", 100), (2, "b", 200)]
    done = await complete_topology(
        example.topology("/no/such/folder"), {"orders": rows}, {"max_retries": 3}, resources={"database": fake}
    )
    assert sorted(fake.saved) == rows
    assert done.failed >= 1
    assert done.pending == 0

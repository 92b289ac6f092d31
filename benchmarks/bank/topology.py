"""Transfers between accounts, exactly once.

    transfers ×2 (rate) ─shuffle─► legs ×2 ─fields(account)─► balances ×3 (state) ─┬─► database: SQLite, write-ahead
                                                                                   ├─► files: JSON lines, one a snapshot
                                                                                   └─► parquet: Parquet files

Transfer number n moves an amount from one account to another, both of which follow from n. Each of its two legs changes
the balance of one account, and is written, with the balance after it and how many legs the account has had.
"""

from __future__ import annotations

import random
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

from aiostorm import Spout, Topology, TopologyBuilder, bolt
from aiostorm.spark import ParquetSinkBolt
from aiostorm.state import FileSink, KeyedState, WriteAheadSink

ACCOUNTS = 1000
LEG = ("account", "transfer", "amount", "balance", "legs")


def transfer(number: int) -> tuple[int, int, int]:
    """Source account, target account, amount."""
    chance = random.Random(number)
    source = chance.randrange(ACCOUNTS)
    return source, (source + chance.randrange(1, ACCOUNTS)) % ACCOUNTS, chance.randint(1, 100)


class Transfers(Spout):
    """Emits its share of the numbers 0 … count - 1, at so many a second."""

    outputs = ("number",)

    def __init__(self, count: int, rate: float) -> None:
        self.count, self.rate = count, rate

    def open(self, context: Any, collector: Any) -> None:
        self.collector = collector
        self.at, self.step = context.task_index, context.parallelism
        self.emitted, self.began_s = 0, time.monotonic()

    def next_tuple(self) -> None:
        if self.at >= self.count:
            self.collector.finish()
        elif self.emitted < (time.monotonic() - self.began_s) * self.rate / self.step:
            self.collector.emit((self.at,))
            self.at += self.step
            self.emitted += 1

    def snapshot(self) -> int:
        return self.at

    def restore(self, position: int) -> None:
        self.at = position


@bolt("account", "transfer", "amount")
def legs(number: int) -> Any:
    source, target, amount = transfer(number)
    yield source, number, -amount
    yield target, number, amount


@bolt(outputs=LEG, state=KeyedState(key="account"))
def balances(account: int, number: int, amount: int, *, state: Any) -> tuple[int, ...]:
    balance, count = state.get(account, (0, 0))
    state[account] = balance, count = balance + amount, count + 1
    return account, number, amount, balance, count


def connect(path: str) -> sqlite3.Connection:
    """The database, from the thread of a task."""
    return sqlite3.connect(path, timeout=30, check_same_thread=False)


def topology(folder: str, count: str, rate: str) -> Topology:
    path = Path(folder)
    builder = TopologyBuilder()
    builder.set_spout("transfers", Transfers(int(count), float(rate)), 2)
    builder.set_bolt("legs", legs, 2).shuffle_grouping("transfers")
    builder.set_bolt("balances", balances, 3).fields_grouping("legs", "account")
    database = WriteAheadSink(partial(connect, str(path / "bank.db")), "INSERT INTO legs VALUES (?, ?, ?, ?, ?)")
    builder.set_bolt("database", database).global_grouping("balances")
    builder.set_bolt("files", FileSink(path / "files"), 2).shuffle_grouping("balances")
    builder.set_bolt("parquet", ParquetSinkBolt(str(path / "parquet")), 2).shuffle_grouping("balances")
    return builder.create_topology()

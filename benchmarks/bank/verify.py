"""Reads what the bank has written, and knows nothing of it: `python -m benchmarks.bank.verify FOLDER COUNT`."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pyarrow.dataset

from .topology import transfer

Leg = tuple[int, int, int, int, int]


def check(legs: Iterable[Leg], count: int) -> dict[str, int]:
    """How many legs are lost, there twice, or wrong; the sum of all amounts, and of the last balances."""
    seen: Counter[tuple[int, int]] = Counter()
    amounts: dict[tuple[int, int], int] = {}
    of_account: dict[int, list[tuple[int, int, int]]] = {}
    for account, number, amount, balance, nth in legs:
        seen[number, account] += 1
        amounts[number, account] = amount
        of_account.setdefault(account, []).append((nth, amount, balance))
    expected: dict[tuple[int, int], int] = {}
    for number in range(count):
        source, target, amount = transfer(number)
        expected[number, source], expected[number, target] = -amount, amount
    wrong = 0
    for found in of_account.values():
        total = 0
        for at, (nth, amount, balance) in enumerate(sorted(found), 1):
            total += amount
            wrong += nth != at or balance != total
    return {
        "legs": sum(seen.values()),
        "lost": len(expected.keys() - seen.keys()),
        "twice": sum(times - 1 for times in seen.values()),
        "wrong": wrong + sum(amounts.get(leg, amount) != amount for leg, amount in expected.items()),
        "sum": sum(max(found)[2] for found in of_account.values()),
    }


def main(folder: Path, count: int) -> dict[str, dict[str, int]]:
    with sqlite3.connect(folder / "bank.db") as connection:
        database = check(connection.execute("SELECT * FROM legs"), count)
    lines = [json.loads(line) for path in (folder / "files").glob("[!.]*.jsonl") for line in path.open()]
    files = check([tuple(line.values()) for line in lines], count)  # type: ignore[misc] # five numbers
    table = pyarrow.dataset.dataset(folder / "parquet", format="parquet").to_table()
    parquet = check(zip(*(column.to_pylist() for column in table.columns), strict=True), count)
    return {"database": database, "files": files, "parquet": parquet}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))

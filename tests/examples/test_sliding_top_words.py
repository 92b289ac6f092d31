"""The words of each hour are those that a plain count of its lines says, whatever the files."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from aiostorm import LocalCluster

from . import load

example = load("sliding_top_words")


def plain(text: str) -> list[tuple[str, str]]:
    """Hour and words, from the whole text: line n is said 100 ms times n after the beginning."""
    lines = text.splitlines()
    chart = []
    for end in range(18_000, len(lines) + 36_000, 18_000):
        said = re.findall(r"[a-z]\w{3,}", "\n".join(lines[max(0, end - 36_000) : end]).lower())
        counts = Counter(word for word in said if word not in example.COMMON)
        if counts:
            best = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:5]
            hour = f"{example.clock(max(0, end - 36_000) * 100)} to {example.clock(end * 100)}"
            chart.append((hour, ", ".join(f"{word} {count}" for word, count in best)))
    return chart


async def test_results_equal_a_plain_count(tmp_path: Path) -> None:
    first = "".join(f"word{n % 7 + n // 9_000} and nothing{n % 3}\n" for n in range(25_000))
    later = "".join(f"self.other{n % 5} = None  # word{n % 11}\n" for n in range(20_000))
    (tmp_path / "a.py").write_text(first)
    (tmp_path / "b.py").write_text(later)
    async with LocalCluster() as cluster:
        topology = example.topology(str(tmp_path / "*.py"))
        running = await cluster.submit("words", topology)
        await running.wait_finished()
        found = example.summary(await running.results())
        metrics = running.metrics()
    expected = plain(first + later)
    assert found == {"windows": 4, "words of each hour": expected}
    assert (metrics["often"].late, metrics["top"].late, metrics["lines"].acked) == (0, 0, 45_000)


def test_patterns_without_a_match_are_named() -> None:
    with pytest.raises(FileNotFoundError, match="no/such"):
        example.topology("no/such/*.py")

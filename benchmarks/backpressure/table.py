"""Table: the ways beside each other, for each kind of slowness, as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..tables import table
from .figures import figures
from .slowness import KINDS
from .ways import NONE, PENDING, WAYS

BEGIN: Final = "<!-- tables of the comparison -->"
END: Final = "<!-- end of the tables of the comparison -->"
COLUMNS: Final = (
    "way",
    "variation of emit rate",
    "variation of bolt rate",
    "share of the bolt's capacity",
    "latency p50",
    "p99",
    "longest pause",
    "pauses ≥ 0.5 s",
    "transitions",
    "failed",
    "executed again",
    "resident memory (growth)",
)


def markdown(machine: Mapping[str, Any], records: Sequence[Mapping[str, Any]], failed: Mapping[str, str]) -> str:
    """All tables, under a line that says where and when."""
    return "\n".join(_lines(machine, records, failed)) + "\n"


def into_page(page: Path, text: str) -> None:
    """Put the tables into a page, between its two markers. ValueError for a page without them."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page}: the tables go between the lines {BEGIN} and {END}, which are not there")
    page.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def _lines(
    machine: Mapping[str, Any], records: Sequence[Mapping[str, Any]], failed: Mapping[str, str]
) -> Iterator[str]:
    lasting = " and ".join(f"{seconds:g} s" for seconds in dict.fromkeys(record["seconds"] for record in records))
    yield (
        f"{machine['date'][:10]}, {machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB, "
        f"{machine['system']}, {machine['python']}, uvloop {machine['packages']['uvloop']}, "
        f"commit {machine['commit'] or 'unknown'}. One run of {lasting or '0 s'} each"
        f"{', in virtual time' if any(record.get('virtual') for record in records) else ''}."
    )
    for name, kind in KINDS.items():
        mine = [record for record in records if record["slowness"] == name]
        if mine:
            title = kind(mine[0]["seconds"]).title
            yield from table(title[0].upper() + title[1:], COLUMNS, map(_cells, mine))
    if failed:
        yield from table("Failed", ("run", "reason"), [[name, _one_line(why)] for name, why in failed.items()])


def _cells(record: Mapping[str, Any]) -> list[str]:
    found = figures(record)
    return [
        WAYS[record["way"]].title,
        "–" if math.isnan(found.emit_cv) else f"**{found.emit_cv:.2f}**",
        f"{found.done_cv:.2f}",
        f"**{found.share:.3f}**",
        _time(found.p50_s),
        _time(found.p99_s),
        f"{found.longest_pause_s:.1f} s",
        f"{found.pauses}",
        "–" if record["way"] in (NONE, PENDING) else f"{found.transitions}",
        f"{found.failed:,}",
        f"{found.again:,}",
        f"{found.rss_mb:.1f} MB ({found.growth_mb:+.1f})",
    ]


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return "–"
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _one_line(reason: str) -> str:
    return reason.replace("\n", " ").replace("|", "\\|")[-400:]

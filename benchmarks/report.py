"""Report: a run as JSON (everything) and as Markdown (tables, ratios first)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import tables
from .cells import Item, Probe, Row
from .findings import Compared, Finding, Probed, compared, findings, probed
from .harness import Run

BEGIN, END = "<!-- tables of a run -->", "<!-- end of the tables -->"


@dataclass(frozen=True, slots=True)
class Report:
    """A run, and what was found in it. `machine` is what machine.py says."""

    machine: Mapping[str, Any]
    items: Sequence[Item]
    run: Run
    repetitions: int

    @classmethod
    def read(cls, path: Path, items: Sequence[Item]) -> Report:
        """A run that was written, with the rows and targets as they are now. What was removed since is left out."""
        given = json.loads(path.read_text(encoding="utf-8"))
        about = given["machine"]
        run = Run(given["records"], given["failed"], given["unavailable"], about["interrupted"])
        return cls(about["machine"], items, run, about["repetitions"])

    @property
    def rows(self) -> list[Row]:
        """The rows, without the probes."""
        return [item for item in self.items if isinstance(item, Row)]

    def findings(self) -> list[Finding]:
        """Of every row, peers' too."""
        return [found for row in self.rows for found in findings(row, self.run.of(row))]

    def compared(self) -> list[Compared]:
        """Of every row of a peer whose counterpart of ours ran as well."""
        by_id = {row.id: row for row in self.rows}
        return [
            found
            for row in self.rows
            if row.ours in by_id
            for found in compared(row, self.run.of(row), self.run.of(by_id[row.ours]))
        ]

    def probed(self) -> list[Probed]:
        """Of every probe."""
        probes = [item for item in self.items if isinstance(item, Probe)]
        return [found for probe in probes for found in probed(probe, self.run.of(probe))]

    def markdown(self) -> str:
        """The tables, under a line that says where and when."""
        return "\n".join(self._markdown()) + "\n"

    def _markdown(self) -> Iterator[str]:
        yield _where(self.machine, self.repetitions)
        found = self.findings()
        yield from tables.of_rows(found)
        yield from tables.of_curve(self.rows, self.run)
        yield from tables.of_peers(found, self.compared(), self._other_pythons())
        yield from tables.of_probes(self.probed())
        yield from tables.of_missing(self.run)
        disturbed = sum(finding.disturbed for finding in found)
        if disturbed:
            rounds = sum(finding.rounds for finding in found)
            yield (
                f"\nIn {disturbed} of {rounds} rounds the limits before and after the subject differed by more than a "
                "quarter: something else was using the machine. They count all the same."
            )

    def _other_pythons(self) -> dict[str, str]:
        """Row id → the version of Python it ran on, where that is not ours."""
        ran = {row.id: records[-1].get("python") for row in self.rows if (records := self.run.of(row))}
        return {name: python for name, python in ran.items() if python and python not in self.machine["python"]}

    def json(self) -> str:
        """Machine, findings, rows and every record; one item a line."""
        parts: dict[str, list[tuple[str, Any]]] = {
            "machine": [
                ("machine", self.machine),
                ("repetitions", self.repetitions),
                ("interrupted", self.run.interrupted),
            ],
            "findings": [(f"{found.row.id}: {found.metric}", _finding(found)) for found in self.findings()],
            "against peers": [(f"{found.row.id}: {found.metric}", _compared(found)) for found in self.compared()],
            "probed": [(f"{found.probe.id}: {found.figure.name}", _probed(found)) for found in self.probed()],
            "failed": list(self.run.failed.items()),
            "unavailable": list(self.run.unavailable.items()),
            "rows": [(item.id, asdict(item)) for item in self.items],
            "records": list(self.run.records.items()),
        }
        lines = (
            f"{json.dumps(part)}: {{\n"
            + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in items)
            + "\n}"
            for part, items in parts.items()
        )
        return "{" + ",\n".join(lines) + "}\n"

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Put both files into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = folder / f"{name}.json", folder / f"{name}.md"
        for path, text in zip(paths, (self.json(), self.markdown()), strict=True):
            path.write_text(text, encoding="utf-8")
        return paths

    def into_page(self, page: Path) -> None:
        """Put the tables into a page, between its two markers. ValueError for a page without them."""
        text = page.read_text(encoding="utf-8")
        before, begin, rest = text.partition(BEGIN)
        _, end, after = rest.partition(END)
        if not (begin and end):
            raise ValueError(f"{page}: the tables go between the lines {BEGIN} and {END}, which are not there")
        page.write_text(f"{before}{begin}\n\n{self.markdown()}\n{end}{after}", encoding="utf-8")


def _where(machine: Mapping[str, Any], repetitions: int) -> str:
    changed = f" and {machine['changed_files']} changed files" if machine["changed_files"] else ""
    return (
        f"{machine['date'][:10]}, {machine['cores']} cores of {machine['processor']}, {machine['memory_gb']} GB, "
        f"{machine['system']}, {machine['python']}, uvloop {machine['packages']['uvloop']}, "
        f"commit {machine['commit'] or 'unknown'}{changed}. "
        f"{repetitions} repetitions; the ratio is the median of theirs."
    )


def _finding(found: Finding) -> dict[str, Any]:
    return {
        "ratio": asdict(found.ratio),
        "cpu_ratio": asdict(found.cpu_ratio) if found.cpu_ratio is not None else None,
        "subject": asdict(found.subject),
        "against": asdict(found.against),
        "target": found.target,
        "met": found.met,
        "disturbed": found.disturbed,
        "rounds": found.rounds,
    }


def _compared(found: Compared) -> dict[str, Any]:
    return {"ours": found.row.ours, "times": asdict(found.times), "target": found.target, "met": found.met}


def _probed(found: Probed) -> dict[str, Any]:
    return {"value": asdict(found.value), "unit": found.figure.unit, "target": found.figure.target, "met": found.met}

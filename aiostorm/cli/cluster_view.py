"""What the commands of a cluster print: its topologies and nodes, for people and for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from ..cluster.nimbus import Demand, isolated_nodes, shown_record
from .document import plain
from .report import printable, table

if TYPE_CHECKING:
    from ..cluster import NodeInfo, TopologyInfo
    from ..cluster.access import RevokedCertificate, TokenInfo
    from ..cluster.nimbus import ErrorEntry

NOTE_CHARS: Final = 70
SHOWN_ERRORS: Final = 10


def list_text(found: Sequence[TopologyInfo]) -> str:
    """A line for each topology."""
    if not found:
        return "no topologies: `aiostorm submit` hands one over"
    rows = [
        (
            printable(each.name),
            each.state,
            _workers(each),
            str(_nodes(each) or ""),
            _time(each.submitted_s),
            _note(each),
        )
        for each in found
    ]
    return table(rows, ("name", "state", "workers", "nodes", "submitted", ""), frozenset({2, 3}))


def show_text(each: TopologyInfo, errors: Sequence[ErrorEntry]) -> str:
    """What was submitted, without its secrets; where it runs; and its last errors."""
    record = shown_record(each.record)
    alone = isolated_nodes(record)
    facts = [
        ("topology", each.name),
        ("state", f"{each.state}{'' if each.wanted == each.state else f' (wanted: {each.wanted})'}"),
        ("target", " ".join((record.target, *record.arguments))),
        ("code", record.blob or "installed on the nodes"),
        ("workers", f"{_workers(each)}{', or fewer' if record.fewer else ''}"),
        ("each worker", str(Demand.of(record))),
        ("tasks", ", ".join(f"{name}={count}" for name, count in sorted(record.parallelism.items()))),
        ("labels", ", ".join(sorted(record.labels))),
        ("pins", ", ".join(f"{name} on {_all(labels)}" for name, labels in sorted(record.pins.items()))),
        ("nodes", f"{alone} of its own, without other topologies" if alone else ""),
        ("generation", _generation(each)),
        ("submitted", f"{_time(each.submitted_s)} by {record.submitted_by}"),
        ("runs since", _time(each.started_s)),
        ("settings", ", ".join(f"{key}={value}" for key, value in sorted(record.config.items()))),
        ("changed", ", ".join(f"{key}={value}" for key, value in sorted(record.updates.items()))),
        ("update refused", each.refused_update(0)),
        ("degraded", each.degraded),
        ("waits", each.waiting),
        ("kept", "" if record.former is None else f"generation {record.former.generation}, until this one runs"),
        ("taken back", each.refused(0)),
    ]
    blocks = [table([(name, printable(text)) for name, text in facts if text])]
    if each.where:
        blocks.append(table([(name, printable(on)) for name, on in each.where.items()], ("process", "node")))
    if errors:
        rows = [(_time(one.at_s), printable(one.where), printable(one.text)) for one in errors[-SHOWN_ERRORS:]]
        blocks.append(table(rows, ("last errors", "where", "")))
    return "\n\n".join(blocks)


def nodes_text(leader: str | None, found: Sequence[NodeInfo]) -> str:
    """The nimbus that leads, and a line for each supervisor."""
    leads = f"nimbus: {leader_text(leader)} leads" if leader is not None else "nimbus: none leads (aiostorm nimbus)"
    if not found:
        return f"{leads}\nno supervisors (aiostorm supervisor)"
    rows = [
        (
            printable(each.name),
            printable(each.host),
            f"{each.used} of {each.slots}",
            str(len(each.parents)),
            str(Demand(each.memory_bytes, round(each.cores * 1000))),
            printable(each.limits),
            printable(", ".join(each.labels)),
            printable(each.version),
            _node_note(each),
        )
        for each in found
    ]
    head = ("node", "host", "slots used", "parents", "workers may have", "limits by", "labels", "version", "")
    return f"{leads}\n\n{table(rows, head, frozenset({2, 3}))}"


def tokens_text(found: Sequence[TokenInfo], *, as_json: bool) -> str:
    """The tokens, for people or as JSON."""
    if as_json:
        return json.dumps({"tokens": [asdict(each) for each in found]}, indent=2)
    if not found:
        return "no tokens: `aiostorm token add NAME --role ROLE` makes one"
    rows = [
        (each.name, each.role, _time(each.made_s), "no end" if each.ends_s is None else _time(each.ends_s))
        for each in found
    ]
    return table(rows, ("token", "role", "made", "valid until"))


def revoked_text(found: Sequence[RevokedCertificate], *, as_json: bool) -> str:
    """The certificates that were revoked, for people or as JSON."""
    if as_json:
        return json.dumps({"revoked": [asdict(each) for each in found]}, indent=2)
    if not found:
        return "no certificate is revoked"
    rows = [(each.sha256, _time(each.revoked_s), printable(each.by), _time(each.ends_s)) for each in found]
    return table(rows, ("SHA-256", "at", "by", "valid until"))


def runs_text(each: TopologyInfo) -> str:
    """A topology that runs, in one line."""
    count, nodes = len(each.where) - 1, _nodes(each)
    workers = f"{count} worker{'' if count == 1 else 's'}"
    return f"{each.name} is {each.state}: {workers} on {nodes} node{'' if nodes == 1 else 's'}"


def topology_document(each: TopologyInfo, errors: Sequence[ErrorEntry] | None = None) -> dict[str, Any]:
    """A topology as JSON data, without its secrets."""
    known: dict[str, Any] = {
        "name": each.name,
        "state": each.state,
        "wanted": each.wanted,
        "workers": each.workers,
        "where": dict(each.where),
        "degraded": each.degraded,
        "waiting": each.waiting,
        "generation": each.generation,
        "running_generation": each.running_generation,
        "started_s": each.started_s,
        **_submitted(asdict(shown_record(each.record))),
    }
    if errors is not None:
        known["errors"] = [asdict(one) for one in errors]
    document: dict[str, Any] = plain(known)
    return document


def nodes_document(leader: str | None, found: Sequence[NodeInfo]) -> dict[str, Any]:
    """The nodes as JSON data."""
    return {"leader": _parsed(leader), "nodes": [plain(asdict(each)) for each in found]}


def _node_note(node: NodeInfo) -> str:
    notes = []
    if node.isolated:
        notes.append(f"only for {printable(node.isolated)}")
    if node.failed:
        what = f"{node.failed} process{'' if node.failed == 1 else 'es'} did not stay alive"
        notes.append(f"{what}: it gets work last" if node.left_out else what)
    return "; ".join(notes)


def _all(labels: Collection[str]) -> str:
    """Labels that a node must all have."""
    return "+".join(sorted(labels))


def leader_text(leader: str) -> str:
    """Who leads, for people: what it has written of itself, or that as it is."""
    known = _parsed(leader)
    if not isinstance(known, dict):
        return printable(leader)
    at = f" at {known['address']}" if known.get("address") else ""
    return printable(f"{known.get('id') or known.get('host', '?')} (pid {known.get('pid', '?')}){at}")


def _parsed(leader: str | None) -> Any:
    """What a nimbus has written of itself; the text if it is something else."""
    try:
        found = json.loads(leader or "null")
    except ValueError:
        return leader
    return found if isinstance(found, dict) else leader


def _submitted(record: Mapping[str, Any]) -> dict[str, Any]:
    names = (
        *("target", "arguments", "blob", "config", "parallelism", "fewer", "labels", "submitted_by", "submitted_s"),
        *("pins", "wait_s", "worker_memory_bytes", "worker_cores", "former", "refused"),
        *("updates", "update", "refused_update"),
    )
    return {name: record[name] for name in names}


def _workers(each: TopologyInfo) -> str:
    placed = max(0, len(each.where) - 1)
    return str(each.workers) if placed == each.workers else f"{placed} of {each.workers}"


def _nodes(each: TopologyInfo) -> int:
    return len(Counter(on for process, on in each.where.items() if process != "parent"))


def _generation(each: TopologyInfo) -> str:
    if each.running_generation in (None, each.generation):
        return str(each.generation)
    return f"{each.generation} (running: {each.running_generation})"


def _note(each: TopologyInfo) -> str:
    note = printable(each.degraded or each.waiting or each.refused(0))
    return note if len(note) <= NOTE_CHARS else note[: NOTE_CHARS - 1] + "…"


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(sep=" ", timespec="seconds") if at_s else ""

"""Parts: the graph with numbers, tables, and numbers as text, for the report and the card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...topology import Arrow, Box, draw_graph, markup

if TYPE_CHECKING:
    from ...backpressure import Backpressure
    from ...metrics import ComponentMetrics, TopologyMetrics
    from ...topology import Plan, Topology


def graph(
    title: str, topology: Topology, plan: Plan, metrics: TopologyMetrics, pressure: Backpressure, seconds: float
) -> str:
    """The graph as SVG: what each component and each edge has done in a second, and how full mailboxes are."""
    boxes = []
    for spec in (*topology.spouts, *topology.bolts):
        found, known = metrics.get(spec.id), pressure.components.get(spec.id)
        tasks = len(plan.tasks_of.get(spec.id, ()))
        lines = ["1 task" if tasks == 1 else f"{tasks} tasks"]
        if found is not None:
            count = found.emitted if spec.kind == "spout" else found.executed
            lines.append(f"{number(count)} tuples, {per_second(count, seconds)}/s")
        fill = None if spec.kind == "spout" else known.fill if known is not None else 0.0
        blocked = known is not None and any(task.blocked for task in known.tasks)
        boxes.append(Box(spec.id, spec.kind, tuple(lines), fill, "blocked" if blocked else "calm"))
    arrows = []
    for spec in topology.components.values():
        for one in spec.inputs:
            source = one.source.component
            if source in topology.components:
                edges = metrics[source].edges if source in metrics else {}
                rows = edges.get((one.source.stream, spec.id), 0)
                arrows.append(Arrow(source, spec.id, (f"{per_second(rows, seconds)}/s",)))
    return draw_graph(title, boxes, arrows)


def components(metrics: TopologyMetrics, seconds: float) -> str:
    """A row for each component."""
    head = (
        "component",
        "tasks",
        "emitted",
        "executed",
        "acked",
        "failed",
        "errors",
        "per second",
        "p50",
        "p99",
        "busy",
    )
    rows = [_component(c, seconds) for name, c in metrics.items() if not name.startswith("__")]
    return table(head, rows, "Components")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> str:
    """An HTML table; every cell is escaped, and cut."""
    cells = "".join(f'<th scope="col">{markup(cell)}</th>' for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{markup(cell, 2000)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><caption>{markup(caption)}</caption><thead><tr>{cells}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def facts(found: Mapping[str, str]) -> str:
    """Names and values."""
    return f"<dl>{''.join(f'<dt>{markup(k)}</dt><dd>{markup(v, 2000)}</dd>' for k, v in found.items() if v)}</dl>"


def number(value: float) -> str:
    """`12,345`."""
    return f"{value:,.0f}"


def per_second(count: float, seconds: float) -> str:
    """So many in a second, on average."""
    rate = count / seconds if seconds > 0 else 0.0
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def duration(seconds: float) -> str:
    """`850 µs`, `1.2 ms`, `3.5 s`, `4.2 min`, `2.5 h`."""
    for limit, unit, size in ((1e-3, "µs", 1e-6), (1.0, "ms", 1e-3), (120.0, "s", 1.0), (7200.0, "min", 60.0)):
        if seconds < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3600:.3g} h"


def _component(c: ComponentMetrics, seconds: float) -> tuple[str, ...]:
    spout = c.kind == "spout"
    latency = c.complete_latency if spout else c.process_latency
    known = bool(latency.buckets)
    lived = c.busy_s + c.blocked_s + c.idle_s
    return (
        c.component,
        str(len(c.tasks)),
        number(c.emitted),
        "" if spout else number(c.executed),
        number(c.acked),
        number(c.failed),
        number(c.errors),
        per_second(c.emitted if spout else c.executed, seconds),
        duration(latency.quantile(0.5)) if known else "",
        duration(latency.quantile(0.99)) if known else "",
        f"{c.busy_s / lived:.0%}" if lived > 0 else "",
    )

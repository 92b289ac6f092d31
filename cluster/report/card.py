"""Card: a running topology in a notebook: its state, its rates, a link to its page, and its graph to unfold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...topology import markup
from .parts import components, duration, facts, graph, number, per_second

if TYPE_CHECKING:
    from ..running_topology import RunningTopology

_STYLE: Final = "border:1px solid #9aa5b1;border-radius:6px;padding:8px 12px;max-width:960px;font-family:sans-serif"


def card(running: RunningTopology, now_s: float, page: str = "") -> str:
    """The HTML. `page`: the address of its page in the browser; empty: there is none. Everything is escaped."""
    metrics, pressure = running.metrics(), running.backpressure()
    seconds = max(0.0, now_s - running.started_s)
    spouts = [c for c in metrics.values() if c.kind == "spout"]
    acked = sum(c.acked for c in spouts)
    found = {
        "state": running.state.value + (f", degraded: {running.degraded}" if running.degraded else ""),
        "since": duration(seconds),
        "acked": f"{number(acked)}, {per_second(acked, seconds)} a second",
        "pending": number(metrics.pending),
        "failed": number(sum(c.failed for c in spouts)),
        "errors": number(sum(c.errors for c in metrics.values())),
    }
    link = f'<p><a href="{markup(page)}">{markup(page)}</a></p>' if page.startswith(("http://", "https://")) else ""
    picture = graph(running.name, running.topology, running.plan, metrics, pressure, seconds)
    return (
        f'<div class="aiostorm-card" style="{_STYLE}"><strong>{markup(running.name, 200)}</strong>{facts(found)}{link}'
        f"<details><summary>Graph</summary>{picture}</details>"
        f"<details><summary>Components</summary>{components(metrics, seconds)}</details></div>"
    )

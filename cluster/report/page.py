"""Page: the report of a run as one HTML document: no script, nothing from a network; light and dark."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Final

from ...topology import Config, markup, shown_setting
from .charts import chart
from .parts import components, duration, facts, graph, number, per_second, table
from .samples import Sample, quantiles, rates, values

if TYPE_CHECKING:
    from ...tasks import ErrorReport
    from ..running_topology import RunningTopology

MOST_CHARTED: Final = 200
"""Components in the timelines."""

MOST_ERRORS: Final = 20
MOST_TRACEBACK_CHARS: Final = 8_000

_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")

_STYLE: Final = """
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}
body{max-width:1000px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem}dt{opacity:.75}dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%}caption{text-align:left;opacity:.75}
th,td{text-align:right;padding:.2rem .6rem;border-bottom:1px solid #9aa5b155}
th:first-child,td:first-child{text-align:left}td{overflow-wrap:anywhere}
figure{margin:1rem 0}figcaption{font-weight:600}svg{max-width:100%;height:auto}
svg .axis{fill:currentColor;font-size:11px}
.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.1rem 1rem}
.legend span{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
pre{overflow-x:auto;padding:.6rem;border:1px solid #9aa5b155;border-radius:6px}
"""


def html(running: RunningTopology, samples: list[Sample], step_s: float, now_s: float) -> str:
    """The document. `samples`: what was recorded, each `step_s`; none: there are no timelines."""
    last = samples[-1].at_s if samples else now_s
    seconds = max(0.0, (last if running.is_over else now_s) - running.started_s)
    metrics, pressure = running.metrics(), running.backpressure()
    title = f"{running.name}: report of a run"
    picture = graph(running.name, running.topology, running.plan, metrics, pressure, seconds)
    parts = [
        f"<h1>{markup(title, 300)}</h1>",
        _summary(running, seconds, now_s),
        f"<h2>Graph</h2><p>Tuples a second are means of the whole run.</p>{picture}",
        f"<h2>Components</h2>{components(metrics, seconds)}",
        f"<h2>Timelines</h2>{_timelines(samples, step_s)}",
        f"<h2>Errors</h2>{_errors(running.errors())}",
        f"<h2>Settings</h2>{_settings(running.config)}",
        f"<h2>Environment</h2>{_environment(running)}",
    ]
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
    )
    return (
        f"{head}<title>{markup(title, 300)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _summary(running: RunningTopology, seconds: float, now_s: float) -> str:
    metrics = running.metrics()
    spouts = [c for c in metrics.values() if c.kind == "spout"]
    acked = sum(c.acked for c in spouts)
    taken = metrics.snapshots
    return facts(
        {
            "state": running.state.value,
            "degraded": running.degraded,
            "started": _date(running.started_s),
            "written": _date(now_s),
            "length": duration(seconds),
            "guarantee": running.config.guarantee,
            "emitted by spouts": number(sum(c.emitted for c in spouts)),
            "acked": f"{number(acked)}, {per_second(acked, seconds)} a second",
            "failed": number(sum(c.failed for c in spouts)),
            "replayed": number(sum(c.replayed for c in spouts)),
            "dead-lettered": number(sum(c.dead_lettered for c in spouts)),
            "pending": number(metrics.pending),
            "late rows": number(sum(c.late for c in metrics.values())),
            "errors": number(sum(c.errors for c in metrics.values())),
            "snapshots": ""
            if taken is None
            else f"{taken.taken:,} taken, {taken.failed:,} failed, rolled back {taken.rolled_back:,} times",
        }
    )


def _timelines(samples: list[Sample], step_s: float) -> str:
    if len(samples) < 2:
        return (
            "<p>Nothing was recorded: record with <code>async with running.report(…):</code> or "
            "<code>aiostorm run --report FILE</code>.</p>"
        )
    names = list(samples[-1].points)[:MOST_CHARTED]

    def percent(value: float) -> str:
        return f"{value:.0%}"

    charts = [
        chart("Tuples a second", {name: rates(samples, name) for name in names}, lambda value: per_second(value, 1.0)),
        chart(
            "Fullest mailbox",
            {name: values(samples, name, "fill") for name in names},
            percent,
        ),
        chart(
            "Wait of a paced spout for each tuple",
            {name: values(samples, name, "wait_s") for name in names},
            duration,
        ),
        chart(
            "99 % within: from emit to ack of a spout, from mailbox to end of a bolt",
            {name: quantiles(samples, name, 0.99) for name in names},
            duration,
        ),
    ]
    return f"<p>A point each {step_s:g} s.</p>{''.join(charts)}"


def _errors(errors: Sequence[ErrorReport]) -> str:
    """Alike ones together, the newest first, the last traceback of each."""
    if not errors:
        return "<p>None.</p>"
    groups: dict[tuple[str, str, str], list[ErrorReport]] = {}
    for error in reversed(errors):
        key = (error.component, error.where, _NUMBERS.sub("0", error.error[:MOST_TRACEBACK_CHARS]))
        groups.setdefault(key, []).append(error)
    shown = []
    for alike in list(groups.values())[:MOST_ERRORS]:
        last = alike[0]
        text = f"{last.component}, {last.where}: {last.error}"
        trace = "\n".join(markup(line) for line in last.traceback[-MOST_TRACEBACK_CHARS:].splitlines())
        shown.append(f"<details><summary>{len(alike)} × {markup(text, 500)}</summary><pre>{trace}</pre></details>")
    more = len(groups) - len(shown)
    note = f"<p>and {more} other kinds</p>" if more > 0 else ""
    return f"<p>The last {len(errors)} errors in user code.</p>{''.join(shown)}{note}"


def _settings(config: Config) -> str:
    """Those that differ from their defaults, with their sources. Secrets are hidden."""
    rows = []
    for name, field in Config.model_fields.items():
        value, default = getattr(config, name), field.get_default(call_default_factory=True)
        if value != default:
            shown = shown_setting(name, value), shown_setting(name, default)
            rows.append((name, *shown, config.source_of(name)))
    rows += [(name, shown_setting(name, value), "", config.source_of(name)) for name, value in config.user.items()]
    if not rows:
        return "<p>All settings have their defaults.</p>"
    return table(("setting", "value", "default", "source"), rows, "Settings that differ from their defaults")


def _environment(running: RunningTopology) -> str:
    processes = running.metrics().processes
    found = {
        "aiostorm": metadata.version("aiostorm"),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "event loop": "uvloop" if "uvloop" in sys.modules else "asyncio",
    }
    rows = [
        (name, str(p.pid), f"{p.cpu_s:.1f} s", "" if p.rss_bytes is None else f"{p.rss_bytes / 1e6:,.0f} MB")
        for name, p in processes.items()
    ]
    return facts(found) + table(("process", "pid", "processor time", "memory"), rows, "Processes")


def _date(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"

"""Pictures: the graph of a topology in the languages of other programs: Mermaid, Graphviz' dot, JSON, and as SVG.

1. They are made of the declared graph only: nothing is imported, started or asked, and no other program is needed.
2. The names of the user are escaped for each language; what cannot be printed is shown as an escape.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from .names import DEFAULT_STREAM
from .svg import Arrow, Box, draw_graph
from .text import printable

if TYPE_CHECKING:
    from .topology import ComponentSpec, Subscription, Topology

MERMAID_TYPE: Final = "text/vnd.mermaid"

_MERMAID: Final = {ord(c): f"#{ord(c)};" for c in '"#&<>`;\\'}


def grouping_text(subscription: Subscription) -> str:
    """`fields (word)`."""
    fields = f" ({', '.join(subscription.fields)})" if subscription.fields else ""
    return subscription.kind.replace("_", " ") + fields


def edge_text(subscription: Subscription) -> str:
    """The grouping, after the stream if that is not the default."""
    stream, text = subscription.source.stream, grouping_text(subscription)
    return text if stream == DEFAULT_STREAM else f"{stream}: {text}"


def drawn_inputs(topology: Topology) -> list[tuple[ComponentSpec, Subscription]]:
    """Each subscription with its component, without those to the system's own components."""
    components = topology.components
    return [(spec, one) for spec in components.values() for one in spec.inputs if one.source.component in components]


def mermaid(topology: Topology) -> str:
    """A Mermaid flowchart."""
    ids = {component: f"c{i}" for i, component in enumerate(topology.components)}
    lines = ["flowchart LR"]
    for spec in topology.components.values():
        left, right = ("([", "])") if spec.kind == "spout" else ("[", "]")
        lines.append(f'  {ids[spec.id]}{left}"{_for_mermaid(_label(spec))}"{right}')
    for spec, one in drawn_inputs(topology):
        lines.append(f'  {ids[one.source.component]} -- "{_for_mermaid(edge_text(one))}" --> {ids[spec.id]}')
    return "\n".join(lines)


def dot(topology: Topology) -> str:
    """A graph for Graphviz: `aiostorm graph --format dot TARGET | dot -Tpdf`."""
    ids = {component: f"c{i}" for i, component in enumerate(topology.components)}
    lines = [f"digraph {_for_dot(topology.name or 'topology')} {{", "  rankdir=LR;", '  node [fontname="sans-serif"];']
    for spec in topology.components.values():
        shape = "ellipse" if spec.kind == "spout" else "box"
        lines.append(f"  {ids[spec.id]} [label={_for_dot(_label(spec))}, shape={shape}];")
    for spec, one in drawn_inputs(topology):
        lines.append(f"  {ids[one.source.component]} -> {ids[spec.id]} [label={_for_dot(edge_text(one))}];")
    return "\n".join([*lines, "}"])


def graph_document(topology: Topology) -> dict[str, Any]:
    """The graph as plain data: components with their streams, and what they read."""
    return {
        "topology": topology.name,
        "resources": list(topology.resources),
        "components": [
            {
                "id": spec.id,
                "kind": spec.kind,
                "tasks": spec.parallelism,
                "outputs": {
                    name: {"fields": list(declared.fields), "direct": declared.direct}
                    for name, declared in spec.outputs.items()
                    if not name.startswith("__")
                },
                "inputs": [
                    {
                        "component": one.source.component,
                        "stream": one.source.stream,
                        "grouping": one.kind,
                        "fields": list(one.fields),
                    }
                    for one in spec.inputs
                ],
            }
            for spec in topology.components.values()
        ],
    }


def json_text(topology: Topology) -> str:
    """`graph_document` as JSON."""
    return json.dumps(graph_document(topology), indent=2, ensure_ascii=False)


def picture(topology: Topology) -> str:
    """The graph as SVG."""
    boxes = [
        Box(spec.id, spec.kind, ("1 task" if spec.parallelism == 1 else f"{spec.parallelism} tasks",))
        for spec in (*topology.spouts, *topology.bolts)
    ]
    arrows = [Arrow(one.source.component, spec.id, (edge_text(one),)) for spec, one in drawn_inputs(topology)]
    return draw_graph(topology.name or "topology", boxes, arrows)


def _label(spec: ComponentSpec) -> str:
    return f"{spec.id} ×{spec.parallelism}" if spec.parallelism > 1 else spec.id


def _for_mermaid(text: str) -> str:
    return printable(text).translate(_MERMAID)


def _for_dot(text: str) -> str:
    return '"' + printable(text).replace("\\", "\\\\").replace('"', '\\"') + '"'

"""Streams: the declared outputs of a component, and the names by which others subscribe to them.

1. A stream belongs to one component; (component, stream) names it in the whole topology.
2. A stream is direct or not. On a direct stream the emitter names the receiving task; on other streams a grouping does.
3. Every spout has one more stream than it declares: `DEAD_LETTER_STREAM`, for messages that are not retried any more.
4. Names that start with "__" belong to the framework.

Storm: OutputFieldsDeclarer, GlobalStreamId, StreamInfo. Here a declaration is data (`outputs = …`), not a call
(depart).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from .fields import Fields
from .names import DEFAULT_STREAM, STREAM_NAME, STREAM_RULE

if TYPE_CHECKING:
    from .values import Unchecked

DEAD_LETTER_FIELDS = Fields("message_id", "stream", "values", "reason", "error", "attempts")
"""The fields of `DEAD_LETTER_STREAM`."""

WATERMARK_FIELDS = Fields("watermark_ms")
"""The fields of `WATERMARK_STREAM`, on which tasks send each other watermarks."""

BARRIER_FIELDS = Fields("number", "rows")
"""The fields of `BARRIER_STREAM`: the snapshot, and how many rows the sender has sent to this task before it."""


@dataclass(frozen=True, slots=True)
class StreamId:
    """One stream of one component."""

    component: str
    stream: str = DEFAULT_STREAM

    def __str__(self) -> str:
        return self.component if self.stream == DEFAULT_STREAM else f"{self.component}:{self.stream}"


@dataclass(frozen=True, slots=True)
class StreamDecl:
    """The declaration of a stream: its fields, and whether it is direct."""

    fields: Fields
    direct: bool = False


def direct(*names: str) -> StreamDecl:
    """Declare a direct stream: `outputs = {"answers": direct("question", "answer")}`."""
    return StreamDecl(Fields(*names), direct=True)


def read_outputs(outputs: Unchecked) -> tuple[dict[str, StreamDecl], list[str]]:
    """The streams of an `outputs` declaration, and its mistakes (for the builder)."""
    if outputs is None:
        return {}, []
    streams: Mapping[object, Unchecked] = {DEFAULT_STREAM: outputs}
    if isinstance(outputs, Mapping):
        streams = cast("Mapping[object, Unchecked]", outputs)
    declared: dict[str, StreamDecl] = {}
    problems: list[str] = []
    for name, given in streams.items():
        if not isinstance(name, str) or not STREAM_NAME.fullmatch(name) or name.startswith("__"):
            problems.append(f"outputs: {name!r} is not a stream name ({STREAM_RULE}, not starting with '__')")
            continue
        try:
            declared[name] = _declaration(given)
        except (TypeError, ValueError) as error:
            problems.append(f"outputs: stream {name!r}: {error}")
    return declared, problems


def _declaration(given: Unchecked) -> StreamDecl:
    if isinstance(given, StreamDecl):
        decl = given
    elif isinstance(given, Fields):
        decl = StreamDecl(given)
    elif isinstance(given, str):
        decl = StreamDecl(Fields(given))
    elif isinstance(given, list | tuple):
        decl = StreamDecl(Fields(*cast("Sequence[Unchecked]", given)))
    else:
        raise TypeError(f"expected Fields, a name, a list of names or direct(…), not {type(given).__name__}")
    for name in decl.fields:
        if "," in name or name != name.strip():
            names = ", ".join(repr(part.strip()) for part in name.split(",") if part.strip())
            raise ValueError(f"{name!r} is one field name; did you mean Fields({names})?")
    return decl

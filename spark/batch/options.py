"""Batch options: how a batch spout reads, whatever the source is; checked when it is declared."""

from __future__ import annotations

from dataclasses import dataclass

from ...transport import TlsFiles
from ..errors import SparkSourceError
from .source import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """See SparkBatchSpout. SparkSourceError for numbers that are none."""

    name: str | None
    chunk_rows: int | None
    ahead: int
    max_pending: int
    in_order: bool
    progress: str | None
    way: Way
    push_host: str | None = None
    push_tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        for what in ("chunk_rows", "ahead", "max_pending"):
            number = getattr(self, what)
            if number is None and what == "chunk_rows":
                continue
            if type(number) is not int or number < 1:
                raise SparkSourceError(f"{what} is a whole number from 1 on, not {number!r}")

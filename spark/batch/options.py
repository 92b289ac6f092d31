"""Batch options: the settings of a batch spout for all kinds of sources; checked when it is declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import SparkSourceError

if TYPE_CHECKING:
    from ...transport import TlsFiles
    from .source import Way


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of a SparkBatchSpout. SparkSourceError for wrong numbers."""

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

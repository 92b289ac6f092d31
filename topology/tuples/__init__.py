"""What tasks send each other: tuples for users, segments inside.

tuples.py has the segment, its origin and the tuple. columns.py has the batch of columns that takes the place of a
segment's rows, and identity.py what such a batch says about the chunk of its source.
"""

from ..values import Row
from .columns import (
    ColumnChoices,
    ColumnRows,
    RepeatedAnchor,
    batch_of,
    column_rows,
    deal_columns,
    greatest_of,
    has_batches,
    is_batch,
    split_columns,
)
from .identity import NO_METADATA, has_identity, metadata_of, part_of, pieces_of, with_identity_of
from .tuples import (
    Lineage,
    Origin,
    Segment,
    TimedItems,
    Tuple,
    TupleBatch,
)

__all__ = [
    "NO_METADATA",
    "ColumnChoices",
    "ColumnRows",
    "Lineage",
    "Origin",
    "RepeatedAnchor",
    "Row",
    "Segment",
    "TimedItems",
    "Tuple",
    "TupleBatch",
    "batch_of",
    "column_rows",
    "deal_columns",
    "greatest_of",
    "has_batches",
    "has_identity",
    "is_batch",
    "metadata_of",
    "part_of",
    "pieces_of",
    "split_columns",
    "with_identity_of",
]

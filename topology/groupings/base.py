"""Grouping: the rule that picks the target tasks of a row. The base class; each grouping is a file of its own.

One grouping object serves one emitting task and one subscription. It is called with whole batches, because those are
sent:

    rows r0 r1 r2 r3 ──split──▶ (task 4, [r0, r3]), (task 7, [r1, r2])

1. `split` returns at most one share per target; the rows of a share keep their order.
2. Every row goes to the targets that `choose` returns for it: no row is lost or doubled.
3. `split` never changes its input and may return it: the caller must not change it either.
4. A grouping uses no clock, no global random source and no Python `hash` that differs between processes: with the same
   `rng` it makes the same choices.
5. A grouping has code for rows (`choose`, `choose_batch`, `split`) and code for columns (`split_columns`). Without the
   latter, the batch is made rows, and these are split.

Storm: CustomStreamGrouping, GrouperFactory. Whole batches are ours (depart), and a target that is not one of the
consumer's is an error here; Storm sends to it (depart).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..values import SharedObject
from .shares import Share, share_out

if TYPE_CHECKING:
    import random

    from ..fields import Fields
    from ..streams import StreamId
    from ..tuples import Row
    from ..values import Anchor, Item, RecordBatch

ROUTING_CACHE_KEYS = 65_536


def never(task: int) -> bool:
    """The default of `is_high`: no target is over its high mark."""
    return False


def unmeasured(target: int) -> float:
    """The default of `row_s`: no target has measured its time for a row."""
    return 0.0


@dataclass(slots=True)
class GroupingContext:
    """The emitter and the targets of a grouping, and the location and fill of the targets.

    `is_high(task)`: is that target over its high mark? `row_s(task)`: its recent seconds of work for a row (0.0: not
    measured). `local` are targets in the same worker, `same_node` targets on the same node. `cache_keys` is the number
    of keys that a grouping by fields remembers; `shared` is a place for objects that groupings of one process share.
    """

    component: str
    task_id: int
    consumer: str
    fields: Fields
    rng: random.Random
    is_high: Callable[[int], bool] = never
    local: frozenset[int] = frozenset()
    same_node: frozenset[int] = frozenset()
    cache_keys: int = ROUTING_CACHE_KEYS
    shared: dict[object, SharedObject] = field(default_factory=dict[object, SharedObject])
    row_s: Callable[[int], float] = unmeasured


class Grouping(ABC):
    """Picks target tasks. For your own, define `choose`, and `choose_batch` or `split` to be faster for batches.

    `split_columns` is for batches of columns (`emit_arrow`): define it if you can choose without making rows.

    `context`, `stream` and `targets` are set by `prepare`. An instance given to `custom_grouping` is copied for
    each emitting task.
    """

    context: GroupingContext
    stream: StreamId
    targets: tuple[int, ...]

    def prepare(self, context: GroupingContext, stream: StreamId, targets: Sequence[int]) -> None:
        """Called once, before anything else. `targets` are the task ids of the consumer."""
        self.context = context
        self.stream = stream
        in_order = tuple(sorted(targets))
        self.targets = context.shared.setdefault((Grouping, in_order), in_order)  # one for a thousand emitters

    @abstractmethod
    def choose(self, values: Row) -> Sequence[int]:
        """The target tasks of one row."""

    def choose_batch(self, rows: Sequence[Row]) -> Sequence[Sequence[int]]:
        """The target tasks of each row."""
        return [self.choose(row) for row in rows]

    def split(self, rows: Sequence[Row], anchors: Sequence[Anchor] | None) -> list[Share]:
        """One share for each target that gets rows. `anchors` is parallel to `rows`."""
        return share_out(self.choose_batch(rows), rows, anchors)

    def split_values(self, rows: Sequence[Item], anchors: Sequence[Anchor] | None) -> list[Share]:
        """The same for a stream of one field: its tuples, and the rows of shares, are bare values."""
        shares = self.split(list(zip(rows)), anchors)
        return [(target, [row[0] for row in share], share_anchors) for target, share, share_anchors in shares]

    def split_columns(self, batch: RecordBatch) -> list[tuple[int, RecordBatch]]:
        """The same for the rows of a pyarrow RecordBatch (at least one): a RecordBatch for each target.

        This implementation makes rows from the batch and splits them with `split`.
        """
        from ..column_split import split_by_row  # pyarrow and NumPy: only where there are columns

        return split_by_row(self.split, batch)

    def only_target(self) -> int | None:
        """The target of all rows, whatever their values; None: the rows must be split."""
        return None

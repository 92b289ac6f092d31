"""Gate: whether a mailbox accepts data now, as a pure machine; and what its senders read of it.

    fill > high: the gate closes          closed: offers are refused, senders park
    fill <= low: the gate may open        between the marks: as it was

1. `fill` is the total weight of the data in the mailbox. It never exceeds `capacity`: the gate alone ensures this,
   because no piece weighs more than the capacity above the high mark (`max_piece`).
2. The reader may set a `limit` below the capacity: the marks are then shares of the limit, and senders send pieces of
   `piece` rows. What is in the mailbox stays, and heavier pieces (up to `max_piece`) still fit.
3. The owner of the gate changes `fill` and opens the gate (Lanes): it has to serve parked senders then.
"""

from __future__ import annotations


class Gate:
    """The gate of one mailbox. Its marks are shares of the limit, which is at first the capacity."""

    __slots__ = (
        "_marks",
        "capacity",
        "closings",
        "fill",
        "high",
        "is_open",
        "largest_piece",
        "limit",
        "low",
        "max_piece",
        "piece",
    )

    def __init__(self, capacity: int, high_mark: float = 0.8, low_mark: float = 0.2) -> None:
        if capacity < 1:
            raise ValueError(f"a mailbox needs a capacity of at least 1, not {capacity}")
        if not 0.0 <= low_mark < high_mark <= 1.0:
            raise ValueError(f"marks must satisfy 0 <= low < high <= 1, not low={low_mark}, high={high_mark}")
        self.capacity = capacity
        self._marks = high_mark, low_mark
        self.fill = 0
        self.is_open = True
        self.closings = 0  # how often the fill has closed it
        self.limit = self.high = self.low = self.piece = 0
        self.set_limit(capacity)
        self.max_piece = self.piece
        self.largest_piece = capacity - self.low  # fits once the fill is at the low mark, whatever the limit

    def set_limit(self, limit: int) -> None:
        """From now on, accept about `limit` tuples (1 to `capacity`)."""
        high_mark, low_mark = self._marks
        self.limit = limit
        self.high = min(int(limit * high_mark), limit - 1)
        self.low = min(int(limit * low_mark), self.high)
        self.piece = limit - self.high
        if self.fill > self.high:
            self.is_open = False

    def accept_last(self, fill: int, weight: int) -> None:
        """The open gate closes behind a piece that brings the fill to `fill`, above the high mark.

        ValueError if the fill would exceed the capacity; then the gate stays open.
        """
        if fill > self.capacity:
            self.check_weight(weight)
        self.is_open = False
        self.closings += 1

    def close(self) -> None:
        """Close until the fill is at the low mark, for a sender whose piece does not fit now and which parks.

        A piece of up to `largest_piece` fits then, and no other message overtakes it meanwhile.
        """
        self.is_open = False

    def check_weight(self, weight: int) -> None:
        """ValueError if the piece may not fit: sent while the gate is open, it could exceed the capacity."""
        if weight > self.max_piece:
            raise ValueError(
                f"a piece of {weight} tuples is more than this mailbox accepts at once ({self.max_piece}, with a "
                f"capacity of {self.capacity}): send smaller pieces, or give the mailbox a larger capacity"
            )

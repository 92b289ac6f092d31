"""What a link may deliver, by a model that knows nothing of links: plain lists of what was sent and what has come.

    sent by incarnation 2 of a to b        0 1 2 3 4 5 6 7 8 9
    b, as reported to a                   └──── 1 ──┘└── 2 ──   sent to an incarnation of b: from its `PeerStarted` on
    delivered                              0 1 2       5 6 7     each a prefix of that

1. Per pair of incarnations, what was delivered is a prefix of what was sent: in order, nothing twice, no gap.
2. An incarnation is reported before what it sends. Once another was reported, nothing of it is delivered, ever: two
   copies of a process may run at once, but they do not take turns.
3. What was reported to a sender as delivered was delivered.
4. In the end all is delivered that running programs sent to one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aiostorm.testing.simulation import World

Incarnation = tuple[str, int]


@dataclass(slots=True)
class Sent:
    """By one incarnation to a name."""

    numbers: int = 0
    begins: list[tuple[Incarnation, int]] = field(default_factory=list)
    """From this number on, it is for that incarnation."""

    def part(self, incarnation: Incarnation) -> range | None:
        """What was sent to an incarnation; None if it was not reported."""
        for i, (begun, first) in enumerate(self.begins):
            if begun == incarnation:
                return range(first, self.begins[i + 1][1] if i + 1 < len(self.begins) else self.numbers)
        return None


class Model:
    """The programs report what they send and receive; the model reports broken promises."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.incarnations: dict[int, Incarnation] = {}
        self.delivered: dict[tuple[Incarnation, Incarnation], list[int]] = {}
        self._sent: dict[tuple[Incarnation, str], Sent] = {}
        self._reported: dict[tuple[Incarnation, str], Incarnation] = {}

    @property
    def messages(self) -> int:
        return sum(len(numbers) for numbers in self.delivered.values())

    def begins(self, incarnation: Incarnation, incarnation_id: int) -> None:
        """A process has started: which incarnation of it this is, and the id that it chose."""
        if incarnation_id in self.incarnations:
            self.world.problem(
                f"{_shown(incarnation)} has the incarnation id of {_shown(self.incarnations[incarnation_id])}"
            )
        self.incarnations[incarnation_id] = incarnation

    def sends(self, source: Incarnation, target: str) -> int:
        """It sends its next message there; the number."""
        sent = self._sent.setdefault((source, target), Sent())
        sent.numbers += 1
        return sent.numbers - 1

    def next_number(self, source: Incarnation, target: str) -> int:
        """The number that `sends` would give."""
        return self._sent.setdefault((source, target), Sent()).numbers

    def on_peer_started(self, incarnation: Incarnation, peer: str, incarnation_id: int, dropped: int) -> None:
        """An incarnation gets the report that the peer is now this one, and how many messages for the last are lost."""
        reported = self.incarnations.get(incarnation_id)
        before = self._reported.get((incarnation, peer))
        if reported is None or reported[0] != peer:
            self.world.problem(f"{_shown(incarnation)} gets the report that {peer} is {reported and _shown(reported)}")
            return
        self._reported[incarnation, peer] = reported
        sent = self._sent.setdefault((incarnation, peer), Sent())
        if reported in (begun for begun, _ in sent.begins):
            self.world.problem(
                f"{_shown(incarnation)} gets the report of {_shown(reported)} again, after {before and _shown(before)}"
            )
        if before is None:
            if dropped:
                self.world.problem(f"{_shown(incarnation)} learns of its first {peer}, and {dropped} messages are lost")
            sent.begins.append((reported, 0))
            return
        delivered = sent.numbers - sent.begins[-1][1] - dropped
        self._check_delivered(incarnation, before, delivered)
        sent.begins.append((reported, sent.numbers))

    def _check_delivered(self, source: Incarnation, target: Incarnation, count: int) -> None:
        came = len(self.delivered.get((source, target), ()))
        if came < count:
            self.world.problem(
                f"{_shown(source)} was notified that {count} messages came to {_shown(target)}: {came} did"
            )

    def comes(self, target: Incarnation, source: Incarnation, number: int) -> None:
        """A message is delivered."""
        reported = self._reported.get((target, source[0]))
        if reported != source:
            what = f"while the last report is of {_shown(reported) if reported else 'none'}"
            self.world.problem(f"{_shown(target)} gets message {number} of {_shown(source)} {what}")
        came = self.delivered.setdefault((source, target), [])
        sent = self._sent.get((source, target[0]), Sent()).part(target)
        if sent is None or number not in sent:
            self.world.problem(f"{_shown(target)} gets message {number} of {_shown(source)}, never sent to it")
        elif number != sent.start + len(came):
            due = sent.start + len(came)
            self.world.problem(f"{_shown(target)} gets message {number} of {_shown(source)}, {due} was due")
        came.append(number)

    def acked(self, source: Incarnation, target: Incarnation, unacked: int) -> None:
        """At some moment so many are not acked; so the others have come."""
        sent = self._sent.get((source, target[0]), Sent()).part(target)
        if sent is not None:
            self._check_delivered(source, target, len(sent) - unacked)

    def missing(self, running: list[Incarnation]) -> Iterator[str]:
        """What has not come, of what running programs sent to one another."""
        for source in running:
            for target in running:
                if source[0] == target[0]:
                    continue
                sent = self._sent.get((source, target[0]), Sent()).part(target)
                came = len(self.delivered.get((source, target), ()))
                if sent is None:
                    yield f"{_shown(source)} has no report of {_shown(target)}"
                elif came < len(sent):
                    yield f"{_shown(target)} has {came} of {len(sent)} messages of {_shown(source)}"

    def at_the_end(self) -> Iterator[str]:
        """Every pair of incarnations, once more, as whole lists."""
        for (source, target), came in self.delivered.items():
            sent = self._sent[source, target[0]].part(target)
            if sent is None:
                yield f"{_shown(source)} never got a report of {_shown(target)}, which got {len(came)} messages"
            elif came != list(sent[: len(came)]):
                yield f"{_shown(target)} got of {_shown(source)} {came[:5]} …, no prefix of {sent}"


def _shown(incarnation: Incarnation) -> str:
    return f"{incarnation[0]} (incarnation {incarnation[1]})"

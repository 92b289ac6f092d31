"""What a link may deliver, by a model that knows nothing of links: plain lists of what was sent and what has come.

    sent by life 2 of a to b, in order     0 1 2 3 4 5 6 7 8 9
    b is told of, as a sees it             └ life 1 ─┘└ life 2   what was sent to a life of b: from its `PeerStarted` on
    delivered                              0 1 2       5 6 7     each a prefix of that

1. Per pair of lives, what was delivered is a prefix of what was sent: in order, nothing twice, no gap.
2. A life is heard of before what it sends. Once another was heard of, nothing of it is delivered, ever: two copies of
   a process may live at once, but they do not take turns.
3. What a sender was told to be delivered was.
4. In the end all is delivered that living sent living.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aiostorm.testing.simulation import World

Life = tuple[str, int]


@dataclass(slots=True)
class Sent:
    """By one life to a name."""

    numbers: int = 0
    begins: list[tuple[Life, int]] = field(default_factory=list)
    """From this number on, it is for that life."""

    def part(self, life: Life) -> range | None:
        """What was sent to a life; None if it was not heard of."""
        for i, (begun, first) in enumerate(self.begins):
            if begun == life:
                return range(first, self.begins[i + 1][1] if i + 1 < len(self.begins) else self.numbers)
        return None


class Model:
    """Told by the programs what they send and get; tells the world what was not kept."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lives: dict[int, Life] = {}
        self.delivered: dict[tuple[Life, Life], list[int]] = {}
        self._sent: dict[tuple[Life, str], Sent] = {}
        self._heard: dict[tuple[Life, str], Life] = {}

    @property
    def messages(self) -> int:
        return sum(len(numbers) for numbers in self.delivered.values())

    def begins(self, life: Life, incarnation: int) -> None:
        """A life of a process, and what it calls itself."""
        if incarnation in self.lives:
            self.world.problem(f"{_shown(life)} has the incarnation of {_shown(self.lives[incarnation])}")
        self.lives[incarnation] = life

    def sends(self, source: Life, target: str) -> int:
        """It sends its next message there; the number."""
        sent = self._sent.setdefault((source, target), Sent())
        sent.numbers += 1
        return sent.numbers - 1

    def next_number(self, source: Life, target: str) -> int:
        """The number that `sends` would give."""
        return self._sent.setdefault((source, target), Sent()).numbers

    def hears_of(self, life: Life, peer: str, incarnation: int, dropped: int) -> None:
        """A life is told that the peer is now this incarnation, and how many messages for the one before are lost."""
        heard = self.lives.get(incarnation)
        before = self._heard.get((life, peer))
        if heard is None or heard[0] != peer:
            self.world.problem(f"{_shown(life)} hears that {peer} is {heard and _shown(heard)}")
            return
        self._heard[life, peer] = heard
        sent = self._sent.setdefault((life, peer), Sent())
        if heard in (begun for begun, _ in sent.begins):
            self.world.problem(f"{_shown(life)} hears of {_shown(heard)} again, after {before and _shown(before)}")
        if before is None:
            if dropped:
                self.world.problem(f"{_shown(life)} hears of its first {peer}, and {dropped} messages are lost")
            sent.begins.append((heard, 0))
            return
        told = sent.numbers - sent.begins[-1][1] - dropped
        self._was_told(life, before, told)
        sent.begins.append((heard, sent.numbers))

    def _was_told(self, source: Life, target: Life, count: int) -> None:
        came = len(self.delivered.get((source, target), ()))
        if came < count:
            self.world.problem(f"{_shown(source)} was told that {count} messages came to {_shown(target)}: {came} did")

    def comes(self, target: Life, source: Life, number: int) -> None:
        """A message is delivered."""
        heard = self._heard.get((target, source[0]))
        if heard != source:
            what = f"while it has heard of {_shown(heard) if heard else 'none'}"
            self.world.problem(f"{_shown(target)} gets message {number} of {_shown(source)} {what}")
        came = self.delivered.setdefault((source, target), [])
        sent = self._sent.get((source, target[0]), Sent()).part(target)
        if sent is None or number not in sent:
            self.world.problem(f"{_shown(target)} gets message {number} of {_shown(source)}, never sent to it")
        elif number != sent.start + len(came):
            due = sent.start + len(came)
            self.world.problem(f"{_shown(target)} gets message {number} of {_shown(source)}, {due} was due")
        came.append(number)

    def acked(self, source: Life, target: Life, unacked: int) -> None:
        """At some moment so many are not acked; so the others have come."""
        sent = self._sent.get((source, target[0]), Sent()).part(target)
        if sent is not None:
            self._was_told(source, target, len(sent) - unacked)

    def missing(self, living: list[Life]) -> Iterator[str]:
        """What has not come, of what living sent living."""
        for source in living:
            for target in living:
                if source[0] == target[0]:
                    continue
                sent = self._sent.get((source, target[0]), Sent()).part(target)
                came = len(self.delivered.get((source, target), ()))
                if sent is None:
                    yield f"{_shown(source)} has not heard of {_shown(target)}"
                elif came < len(sent):
                    yield f"{_shown(target)} has {came} of {len(sent)} messages of {_shown(source)}"

    def at_the_end(self) -> Iterator[str]:
        """Every pair of lives, once more, as whole lists."""
        for (source, target), came in self.delivered.items():
            sent = self._sent[source, target[0]].part(target)
            if sent is None:
                yield f"{_shown(source)} never heard of {_shown(target)}, which got {len(came)} messages"
            elif came != list(sent[: len(came)]):
                yield f"{_shown(target)} got of {_shown(source)} {came[:5]} …, no prefix of {sent}"


def _shown(life: Life) -> str:
    return f"{life[0]} (life {life[1]})"

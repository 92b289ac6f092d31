"""Actors without any topology: ask, tell, watch, restart.

    python -m examples.actors_ping

A referee starts a player, watches it, breaks it (a new one is started behind the same address), and sends it home.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiostorm import Actor, ActorSystem, Ref, Terminated


class Player(Actor):
    """Answers pings, and breaks on request."""

    def __init__(self) -> None:
        self.pings = 0

    def receive(self, message: Any) -> str | None:
        """What it returns is the reply, if it was asked."""
        if message == "break":
            raise RuntimeError("a broken racket")
        self.pings += 1
        return f"pong {self.pings}"


class Referee(Actor):
    """Plays with one player. Messages come one at a time, so that nothing here needs a lock."""

    player: Ref

    def started(self) -> None:
        """Start the player: a child, which ends with this actor at the latest."""
        self.player = self.spawn(Player, "player")
        self.watch(self.player)
        self.over = asyncio.Event()

    async def receive(self, message: Any) -> Any:
        """Play, or notice that the player has ended."""
        match message:
            case "play":
                return [await self.player.ask("ping", timeout_s=1) for _ in range(3)]
            case "break it":
                await self.player.tell("break")  # without waiting for an answer
                return await self.player.ask("ping")  # a new player, with the mailbox of the old one
            case "send it home":
                self.player.stop()
                return None
            case Terminated(ref, error):
                print(f"{ref.path} has ended, {'in order' if error is None else f'with {error!r}'}")
                self.over.set()
                return None


async def main() -> None:
    """Play."""
    async with ActorSystem("court") as system:
        system.on_failure = lambda path, error, decision: print(f"{path}: {error!r}, so: {decision.directive.value}")
        referee = system.spawn(Referee, "referee")
        print("three pings:", await referee.ask("play"))
        print("after a restart:", await referee.ask("break it"))
        await referee.ask("send it home")
    print("the system has ended, and everything in it")


if __name__ == "__main__":
    asyncio.run(main())

"""Actors for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiostorm.actors import Actor, ActorSystem, Decision, Directive, Ref, Terminated


class Echo(Actor):
    """Answers with the message."""

    def receive(self, message: Any) -> Any:
        return message


class Diary(Actor):
    """Records its messages. Callables are called with the actor; exceptions are raised."""

    def __init__(self, name: str = "", pages: list[Any] | None = None) -> None:
        self.name = name
        self.pages: list[Any] = pages if pages is not None else []

    def started(self) -> None:
        self.write("started")

    async def receive(self, message: Any) -> Any:
        if isinstance(message, Terminated):
            self.write(("terminated", message.ref.path))
            return None
        if isinstance(message, BaseException):
            self.write(("raises", repr(message)))
            raise message
        if callable(message):
            result = message(self)
            return await result if asyncio.iscoroutine(result) else result
        self.write(message)
        return message

    def stopped(self) -> None:
        self.write("stopped")

    def write(self, page: Any) -> None:
        self.pages.append((self.name, page) if self.name else page)


class Family(Diary):
    """Children a and b, and a has c."""

    def started(self) -> None:
        super().started()
        if self.name in ("p", "a"):
            for name in "ab" if self.name == "p" else "c":
                self.spawn(type(self)(name, self.pages), name)


def ends(pages: list[Any]) -> list[str]:
    return [name for name, page in pages if page == "stopped"]


class Stubborn(Actor):
    """Swallows every cancel while it waits for `released`."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.cancels = 0

    async def receive(self, message: Any) -> None:
        while not self.released.is_set():
            try:
                await self.released.wait()
            except asyncio.CancelledError:
                self.cancels += 1


class Watcher(Actor):
    """Watches the given actors, and records the notices that it receives."""

    def __init__(self, *refs: Ref) -> None:
        self.refs = refs
        self.notices: list[Terminated] = []

    def started(self) -> None:
        for ref in self.refs:
            self.watch(ref)

    def receive(self, message: Any) -> None:
        if isinstance(message, Terminated):
            self.notices.append(message)
        else:
            message(self)


def waiting_for(event: asyncio.Event) -> Callable[[Actor], Any]:
    """A message for Diary: wait in `receive`."""

    def wait(actor: Actor) -> Any:
        return event.wait()

    return wait


class Reports:
    """The failures that the system reported."""

    def __init__(self, system: ActorSystem) -> None:
        self.all: list[tuple[str, str, Directive]] = []
        self.causes: list[BaseException | None] = []
        system.on_failure = self.note

    def note(self, path: str, error: BaseException, decision: Decision) -> None:
        self.all.append((path, str(error), decision.directive))
        self.causes.append(error.__cause__)


async def steps(count: int = 20) -> None:
    """Let ready tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def ends_with(error: type[BaseException], match: str | None = None, **options: Any) -> AsyncIterator[ActorSystem]:
    """A system whose block ends with this error."""
    with pytest.raises(error, match=match):
        async with ActorSystem(**options) as system:
            yield system

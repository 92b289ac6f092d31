"""Death watch: each end is heard of exactly once, by everybody who watches, whenever they began to."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.actors import ActorSystem, Ref, RestartPolicy
from aiostorm.testing import VirtualTimeLoop

from .people import Diary, Echo, Watcher, steps


@pytest.mark.parametrize("end", [Ref.stop, Ref.kill])
async def test_watching_before_and_after_the_end(end: object) -> None:
    async with ActorSystem() as system:
        target = system.spawn(Echo)
        early, late = Watcher(target, target, target), Watcher(target)
        system.spawn(early)
        await steps()
        end(target)  # type: ignore[operator]
        await target.wait_terminated()
        system.spawn(late)
        await steps()
        assert [heard.ref for heard in early.heard] == [target]
        assert [heard.ref for heard in late.heard] == [target]
        assert early.heard[0].error is None


async def test_a_restart_is_no_end_and_does_not_end_the_watching() -> None:
    async with ActorSystem(policy=RestartPolicy(backoff_s=(0.0,))) as system:
        target = system.spawn(Diary)
        watcher = Watcher(target)
        watching = system.spawn(watcher)
        await target.tell(ValueError("restarts the watched"))
        await watching.tell(_fail)
        await target.ask("after")
        await steps()
        assert watcher.heard == []
        target.kill()
        await target.wait_terminated()
        await steps()
        assert len(watcher.heard) == 1


async def test_who_stops_watching_hears_nothing() -> None:
    async with ActorSystem() as system:
        target = system.spawn(Echo)
        watcher = Watcher(target)
        ref = system.spawn(watcher)
        await steps()
        await ref.tell(lambda actor: actor.unwatch(target))
        await ref.tell(lambda actor: actor.unwatch(target))
        await steps()
        target.kill()
        await target.wait_terminated()
        await steps()
        assert watcher.heard == []


async def test_both_sides_forget() -> None:
    async with ActorSystem() as system:
        target, ref = system.spawn(Echo, "target"), system.spawn(Watcher(), "watcher")
        await ref.tell(lambda actor: actor.watch(target))
        await steps()
        watched, watching = target._cell.deathwatch, ref._cell.deathwatch
        assert list(watched._watchers) == [watching]
        ref.kill()
        await ref.wait_terminated()
        assert not watched._watchers
        assert not watching._watched
        watching.watch(watched)  # somebody holds a dead actor
        assert not watched._watchers


async def test_an_actor_may_watch_itself_to_no_effect() -> None:
    async with ActorSystem() as system:
        ref = system.spawn(Diary)
        await ref.ask(lambda actor: actor.watch(actor.ref))
        ref.stop()
        await ref.wait_terminated()
        assert system.dead_letters.count == 0


def _fail(actor: object) -> None:
    raise ValueError("restarts the watcher")


SCRIPT = st.lists(
    st.tuples(st.sampled_from(["watch", "unwatch", "stop", "kill", "step"]), st.integers(0, 2), st.integers(0, 2)),
    max_size=25,
)


@given(script=SCRIPT)
def test_exactly_once_for_each_time_of_watching(script: list[tuple[str, int, int]]) -> None:
    """A watcher that watches to the end hears of it once; one that stopped watching before it does not."""

    async def work() -> None:
        async with ActorSystem() as system:
            targets = [system.spawn(Echo, f"target{i}") for i in range(3)]
            watchers = [Watcher() for _ in range(3)]
            for watcher in watchers:
                system.spawn(watcher)
            await steps()
            expected = [[0] * 3 for _ in range(3)]
            watching: set[tuple[int, int]] = set()
            ended: set[int] = set()
            for what, who, whom in script:
                target = targets[whom]
                if what == "watch":
                    watchers[who].watch(target)
                    if whom in ended:
                        expected[who][whom] += 1  # at once, each time
                    else:
                        watching.add((who, whom))
                elif what == "unwatch":
                    watchers[who].unwatch(target)
                    watching.discard((who, whom))
                elif what in ("stop", "kill"):
                    target.stop() if what == "stop" else target.kill()
                    await target.wait_terminated()
                    if whom not in ended:
                        ended.add(whom)
                        for who_ in range(3):
                            expected[who_][whom] += (who_, whom) in watching
                        watching = {pair for pair in watching if pair[1] != whom}
                else:
                    await steps()
            await steps()
            for who, watcher in enumerate(watchers):
                heard = [letter.ref for letter in watcher.heard]
                assert [heard.count(target) for target in targets] == expected[who]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())

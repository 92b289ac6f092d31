"""Death watch: each watcher is notified of an end exactly once, whenever it started to watch."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.actors import ActorSystem, Ref, RestartPolicy
from aiostorm.testing import VirtualTimeLoop

from .sample_actors import Diary, Echo, Watcher, steps


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
        assert [notice.ref for notice in early.notices] == [target]
        assert [notice.ref for notice in late.notices] == [target]
        assert early.notices[0].error is None


async def test_a_restart_is_no_end_and_does_not_end_the_watching() -> None:
    async with ActorSystem(policy=RestartPolicy(backoff_s=(0.0,))) as system:
        target = system.spawn(Diary)
        watcher = Watcher(target)
        watching = system.spawn(watcher)
        await target.tell(ValueError("restarts the watched"))
        await watching.tell(_fail)
        await target.ask("after")
        await steps()
        assert watcher.notices == []
        target.kill()
        await target.wait_terminated()
        await steps()
        assert len(watcher.notices) == 1


async def test_after_unwatch_no_notice_comes() -> None:
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
        assert watcher.notices == []


async def test_both_sides_forget() -> None:
    async with ActorSystem() as system:
        target, ref = system.spawn(Echo, "target"), system.spawn(Watcher(), "watcher")
        await ref.tell(lambda actor: actor.watch(target))
        await steps()
        watched, watching = target.cell.deathwatch, ref.cell.deathwatch
        assert list(watched._watchers) == [watching]
        ref.kill()
        await ref.wait_terminated()
        assert not watched._watchers
        assert not watching._watched
        watching.watch(watched)  # a reference to an ended actor
        assert not watched._watchers


async def test_a_watcher_forgets_one_that_has_ended() -> None:
    async with ActorSystem() as system:
        target, ref = system.spawn(Echo, "target"), system.spawn(Watcher(), "watcher")
        await ref.tell(lambda actor: actor.watch(target))
        await steps()
        watching = ref.cell.deathwatch
        assert list(watching._watched) == [target.cell.deathwatch]
        target.stop()
        await target.wait_terminated()
        assert not watching._watched
        assert not target.cell.deathwatch._watchers


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
    """A watcher is notified of an end once; one that stopped watching before is not."""

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
            for what, index, target_name in script:
                target = targets[target_name]
                if what == "watch":
                    watchers[index].watch(target)
                    if target_name in ended:
                        expected[index][target_name] += 1  # at once, each time
                    else:
                        watching.add((index, target_name))
                elif what == "unwatch":
                    watchers[index].unwatch(target)
                    watching.discard((index, target_name))
                elif what in ("stop", "kill"):
                    target.stop() if what == "stop" else target.kill()
                    await target.wait_terminated()
                    if target_name not in ended:
                        ended.add(target_name)
                        for watcher_index in range(3):
                            expected[watcher_index][target_name] += (watcher_index, target_name) in watching
                        watching = {pair for pair in watching if pair[1] != target_name}
                else:
                    await steps()
            await steps()
            for index, watcher in enumerate(watchers):
                notices = [letter.ref for letter in watcher.notices]
                assert [notices.count(target) for target in targets] == expected[index]

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(work())

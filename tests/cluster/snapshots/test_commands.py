"""Commands about snapshots reach the tasks of all workers, in order; what the tasks report reaches the parent."""

from __future__ import annotations

from typing import Any

import pytest

from aiostorm.cluster.snapshots import SnapshotCommand, TasksCommitted, TasksSaved
from aiostorm.cluster.snapshots.agent import Agent
from aiostorm.tasks import AbortSnapshot, CommitSnapshot, TakeSnapshot

from .rebuilt import TASKS, Driver, with_driver


def saved(driver: Driver, number: int) -> set[int]:
    """The tasks that have saved this snapshot."""
    reports = [report for report in driver.reports if isinstance(report, TasksSaved)]
    return {done.task for report in reports for done in report.parts if done.number == number}


def committed(driver: Driver, number: int) -> set[int]:
    reports = [report for report in driver.reports if isinstance(report, TasksCommitted)]
    return {task for report in reports for task in report.tasks if report.number == number}


def test_all_tasks_save_and_commit_a_snapshot() -> None:
    async def story(driver: Driver) -> None:
        for number in (1, 2):
            await driver.some_rows()
            driver.runtime.send(TakeSnapshot(number, driver.incarnation))
            await driver.world.until(lambda number=number: len(saved(driver, number)) == TASKS, 30, "it is saved")  # type: ignore[misc]
            driver.runtime.send(CommitSnapshot(number, driver.incarnation))
            await driver.world.until(lambda number=number: len(committed(driver, number)) == TASKS, 30, "commits")  # type: ignore[misc]
            await driver.rebuild()
        assert not driver.lost
        assert driver.world.disk("place").names("t"), "each worker has written to the place"

    with_driver(story, workers=3)


def test_commands_arrive_in_order_and_only_where_tasks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    came: dict[int, list[int]] = {}

    def command(self: Agent, command: SnapshotCommand) -> None:
        came.setdefault(id(self), []).append(command.number)

    async def story(driver: Driver) -> None:
        monkeypatch.setattr(Agent, "command", command)
        await driver.some_rows()
        makers: list[Any] = [TakeSnapshot, CommitSnapshot, AbortSnapshot]
        for number in range(300):
            driver.runtime.send(makers[number % 3](number, 1))
        await driver.world.until(lambda: sum(map(len, came.values())) == 900, 10, "all of them")
        assert list(came.values()) == [list(range(300))] * 3

        came.clear()
        driver.world.processes["worker-2"].kill("is killed by the test")
        await driver.world.until(lambda: bool(driver.lost), 10, "the loss")
        driver.runtime.send(AbortSnapshot(1000, 1))
        await driver.world.until(lambda: sum(map(len, came.values())) == 2, 10, "two of them")
        await driver.recover()
        driver.runtime.send(TakeSnapshot(1001, 2))
        await driver.world.until(lambda: sum(map(len, came.values())) == 5, 10, "the new ones")
        assert sorted(came.values()) == [[1000], [1000], [1001], [1001], [1001]]

    with_driver(story, workers=3)


def test_a_worker_that_takes_no_commands_is_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def story(driver: Driver) -> None:
        await driver.some_rows()
        driver.world.processes["worker-2"].pause(3.0)
        for number in range(5000):
            driver.runtime.send(AbortSnapshot(number, 1))
        assert "worker-2 does not take commands" in caplog.text
        await driver.rebuild()
        await driver.some_rows()

    with_driver(story)


def test_what_old_tasks_report_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    agents: list[Agent] = []
    real = Agent.__init__

    def made(self: Agent, *arguments: Any, **named: Any) -> None:
        real(self, *arguments, **named)
        agents.append(self)

    async def story(driver: Driver) -> None:
        old = list(agents)
        await driver.some_rows()
        await driver.rebuild()
        driver.reports.clear()
        for agent in old:
            agent.row_failed("slow", 3, "it is too late")
        await driver.some_rows()
        assert not driver.reports

    monkeypatch.setattr(Agent, "__init__", made)
    with_driver(story)
    assert len(agents) == 4

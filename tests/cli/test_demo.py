"""`aiostorm demo`: it explains its output."""

from __future__ import annotations

from aiostorm import Config
from aiostorm.cli.demo import topology
from aiostorm.cli.progress import QuietDisplay
from aiostorm.cli.report import RunReport
from aiostorm.cli.run import Job, run
from aiostorm.cli.signals import Interrupts

from .conftest import Command


def test_the_command(aiostorm: Command):
    outcome = aiostorm("demo", "--seconds", "0.1")
    assert outcome.code == 0
    assert outcome.err.startswith("A shop, for about 0.1 s.")
    assert "aiostorm/cli/demo.py" in outcome.err
    assert outcome.out.startswith("orders paid             40\n")
    assert "demo-shop finished after" in outcome.out
    assert "aiostorm demo" in aiostorm("--help").out


async def test_the_demo_shows_backpressure():
    """Twenty seconds, in virtual time."""
    reports: list[RunReport] = []
    shop = topology()
    await run(Job("demo", shop, Config().merge(shop.config)), QuietDisplay(), Interrupts(), reports.append)
    [report] = reports
    assert (report.state, report.problems) == ("finished", ())
    assert report.elapsed_s < 25
    assert "orders waits" in report.paced
    assert "payments cannot keep up" in report.paced
    assert report.messages["acked"] == 8_000
    assert report.messages["failed"] == report.messages["replayed"] > 16 / 2
    assert isinstance(report.summary, dict)
    assert report.summary["orders paid"] == 8_000
    assert report.summary["windows of ten minutes"] == 27
    assert sum(row["orders"] for row in report.summary["per product"]) == 8_000
    assert all(row["orders"] for row in report.summary["per product"])
    assert report.metrics["revenue"].late == 0

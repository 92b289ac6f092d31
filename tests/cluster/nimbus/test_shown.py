"""Records as others may see them: no secret of settings and arguments, and everything else as it is."""

from __future__ import annotations

from dataclasses import replace

from aiostorm.cluster.nimbus import TopologyRecord, shown_record

RECORD = TopologyRecord(
    "jobs:orders",
    ("10", "PASSWORD=c4nary"),
    config={"topology.workers": 2, "db.password": "c4nary", "db.url": "amqp://me:c4nary@host", "db.pass": None},
    labels=frozenset({"gpu"}),
)


def test_secrets_are_hidden_and_nothing_else() -> None:
    shown = shown_record(RECORD)
    assert shown == replace(
        RECORD,
        arguments=("10", "PASSWORD=***"),
        config={"topology.workers": 2, "db.password": "***", "db.url": "amqp://***@host", "db.pass": None},
    )
    assert shown_record(shown) == shown
    assert "c4nary" in str(RECORD), "it is as it was"

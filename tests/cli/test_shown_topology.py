"""What `aiostorm show` and `list --json` print of a topology has no secret of its settings and arguments."""

from __future__ import annotations

import json

from aiostorm.cli.cluster_view import show_text, topology_document
from aiostorm.cluster import TopologyInfo
from aiostorm.cluster.nimbus import TopologyRecord


def test_no_secret_is_printed() -> None:
    config = {"db.password": "c4nary", "db.url": "amqp://me:c4nary@host", "topology.workers": 2}
    found = TopologyInfo("words", TopologyRecord("m:t", ("API_KEY=c4nary", "b"), config=config), "ACTIVE", {})
    text, document = show_text(found, ()), topology_document(found, ())
    assert "target      m:t API_KEY=*** b" in text
    assert "db.password=***, db.url=amqp://***@host, topology.workers=2" in text
    assert document["arguments"] == ["API_KEY=***", "b"]
    assert document["config"] == {"db.password": "***", "db.url": "amqp://***@host", "topology.workers": 2}
    assert "c4nary" not in text + json.dumps(document)

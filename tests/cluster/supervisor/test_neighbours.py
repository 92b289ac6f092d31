"""Which supervisors can work together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aiostorm.cluster.nimbus import SupervisorRecord
from aiostorm.cluster.supervisor.neighbours import conflict

ONE = SupervisorRecord("one", "", 4, boot="b1", home="/h", credentials="c1")
FAR = replace(ONE, address="10.0.0.1", credentials="tls-c1")


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (ONE, ONE),
        (ONE, replace(ONE, slots=8, credentials="")),
        (FAR, replace(FAR, host="two", address="10.0.0.2", boot="b2", home="/other")),
        (ONE, SupervisorRecord("one", "", 4)),  # of an earlier version
    ],
)
def test_those_that_can_connect_to_each_other(own: SupervisorRecord, other: SupervisorRecord) -> None:
    assert conflict(own, {"b": other}) == ""
    assert conflict(other, {"b": own}) == ""
    assert conflict(own, {}) == ""


@pytest.mark.parametrize(
    ("own", "other", "says"),
    [
        (FAR, ONE, "start it with --host"),
        (ONE, FAR, "reached at 10.0.0.1: give this one"),
        (ONE, replace(ONE, home="/x"), "another home folder"),
        (ONE, replace(ONE, host="two"), "another home folder"),
        (ONE, replace(ONE, boot="b2"), "another home folder"),
        (ONE, replace(ONE, credentials="c2"), "other credentials"),
        (FAR, replace(FAR, host="two", credentials="c1"), "all have TLS, or none"),
    ],
)
def test_those_that_cannot(own: SupervisorRecord, other: SupervisorRecord, says: str) -> None:
    assert conflict(own, {"a": own, "b": other}).startswith(f"supervisor b on {other.host} ")
    assert says in conflict(own, {"a": own, "b": other})

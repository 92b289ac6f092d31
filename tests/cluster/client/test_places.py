"""Whether what is submitted is where all nodes find it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aiostorm.cluster import CheckedTarget, ClusterError
from aiostorm.cluster.client.places import Here, check_code_place, check_state_place
from aiostorm.cluster.nimbus import SupervisorRecord
from aiostorm.topology import ConfigError

HERE = Here("one", "b1", "/h")
ONE = SupervisorRecord("one", "", 4, boot="b1", home="/h")
FAR = replace(ONE, address="10.0.0.1")
EXACT = {"topology.guarantee": "exactly-once"}


def test_code_in_the_home_folder_is_for_supervisors_with_this_folder() -> None:
    check_code_place(HERE, {})
    check_code_place(HERE, {"a": ONE, "b": FAR})
    for other in (replace(ONE, host="two"), replace(ONE, boot="b2"), replace(ONE, home="/x")):
        with pytest.raises(ClusterError, match="where b cannot find it: start"):
            check_code_place(HERE, {"a": ONE, "b": other})
    many = {name: replace(ONE, host=name) for name in "abcdef"}
    with pytest.raises(ClusterError, match="a, b, c and 3 more"):
        check_code_place(HERE, many)


@pytest.mark.parametrize(
    ("config", "checked", "supervisors"),
    [
        (EXACT, None, {"a": ONE}),
        ({}, None, {"a": FAR}),
        (EXACT | {"topology.state.dir": "file:///mnt/state"}, None, {"a": FAR}),
        ({}, CheckedTarget("t", 1, guarantee="at-least-once"), {"a": FAR}),
        ({}, CheckedTarget("t", 1, guarantee="exactly-once", state="s3://x"), {"a": FAR}),
    ],
)
def test_snapshots_that_all_nodes_reach(
    config: dict[str, Any], checked: CheckedTarget | None, supervisors: dict[str, SupervisorRecord]
) -> None:
    check_state_place("t", config, checked, supervisors)


@pytest.mark.parametrize(
    ("config", "checked"),
    [
        (EXACT, None),
        (EXACT | {"topology.state.dir": "/var/state"}, None),
        ({}, CheckedTarget("t", 1, guarantee="exactly-once", state="/var/state")),
        ({}, CheckedTarget("t", 1, guarantee="exactly-once")),
    ],
)
def test_snapshots_that_would_be_in_a_folder_of_one_node(config: dict[str, Any], checked: CheckedTarget | None) -> None:
    with pytest.raises(ConfigError, match="'t' has workers on other machines"):
        check_state_place("t", config, checked, {"a": ONE, "b": FAR})

"""Is there a core for each slot? What the settings of a session say."""

from __future__ import annotations

import pytest

from aiostorm.spark.resources import SlotResources, is_local, resources_for


def resources(slots: int, master: str, **settings: str) -> SlotResources:
    given = {f"spark.{key.replace('_', '.')}": value for key, value in settings.items()}
    return resources_for(slots, master, 4, lambda key, default: given.get(key, default))


@pytest.mark.parametrize(
    ("master", "here"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[4, 2]", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077,127.0.0.2:7077", True),
        ("spark://[::1]:7077", True),
        ("spark://127.0.0.1:7077,far.example:7077", False),
        ("spark://10.0.0.1:7077", False),
        ("spark://127.0.0.1.far.example:7077", False),
        ("yarn", False),
        ("k8s://https://127.0.0.1:6443", False),
        ("localhost", False),
    ],
)
def test_where_executors_are(master: str, here: bool) -> None:
    assert is_local(master) == here


def test_fewer_cores_than_slots_is_a_problem_and_none_left_a_warning() -> None:
    assert resources(3, "local[4]") == SlotResources(4)
    assert "hold all 4 cores" in resources(4, "local[4]").warnings[0]
    assert "5 slots need 5 cores, and local[4] has 4" in resources(5, "local[4]").problems[0]
    assert "2 slots need 4 cores" in resources(2, "local-cluster[3,1,512]", task_cpus="2").problems[0]
    assert resources(9, "spark://127.0.0.1:7077") == SlotResources(0)
    assert resources(9, "spark://127.0.0.1:7077", cores_max="8").problems
    assert resources(9, "yarn", executor_instances="4", executor_cores="2").problems


def test_settings_that_start_or_end_executors_are_reported() -> None:
    assert "set it to false" in resources(1, "local[4]", speculation="true").problems[0]
    elastic = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.maxExecutors": "2"}
    found = resources_for(3, "yarn", 0, lambda key, default: elastic.get(key, default))
    assert "raise it" in found.problems[0]
    found = resources_for(2, "yarn", 0, lambda key, default: elastic.get(key, default))
    assert not found.problems
    assert "dynamicAllocation is on" in found.warnings[0]


def test_the_cores_of_a_cluster_on_this_machine() -> None:
    assert resources_for(2, "local-cluster[2,3,1024]", 8, lambda _, default: default).cores == 6
    assert resources_for(2, "local[4]", 4, lambda _, default: default).cores == 4

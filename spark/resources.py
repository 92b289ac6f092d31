"""Resources: whether Spark has a core for each slot, and keeps slots running. Pure: settings in, problems out.

1. A slot occupies `spark.task.cpus` cores as long as its worker runs.
2. A speculative copy of a task would be an unwanted worker, and the end of one would end the other: refused.
3. Cores that a cluster manager may add later are not known here: a slot that waits reports it (workers/spawner.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address

Setting = Callable[[str, str], str]
"""(key, default) → value."""

_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:, *\d+)?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[ *(\d+) *, *(\d+) *, *\d+ *\]")


@dataclass(frozen=True, slots=True)
class SlotResources:
    """The available cores (0: not known). `problems` prevent the start, `warnings` are logged."""

    cores: int
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def is_local(master: str) -> bool:
    """Whether all executors of this master run on this machine."""
    if _LOCAL.fullmatch(master) or _LOCAL_CLUSTER.fullmatch(master):
        return True
    scheme, _, rest = master.partition("://")
    hosts = [address.rpartition(":")[0].strip("[]") for address in rest.split(",")]
    return scheme == "spark" and all(host == "localhost" or _is_loopback(host) for host in hosts)


def resources_for(slots: int, master: str, local_cores: int, setting: Setting) -> SlotResources:
    """Check the settings of a session. `local_cores`: the cores of a local master."""
    per_slot = int(setting("spark.task.cpus", "1"))
    cores = _cores(master, local_cores, setting)
    problems, warnings = [], []
    if cores and cores // per_slot < slots:
        problems.append(
            f"{slots} slots need {slots * per_slot} cores, and {master} has {cores}: give SparkWorkers fewer slots, or "
            "Spark more cores (spark.executor.instances, spark.executor.cores, spark.cores.max; in tests "
            "local-cluster[executors,cores,MB])"
        )
    elif cores and cores - slots * per_slot < per_slot:
        warnings.append(
            f"{slots} slots hold all {cores} cores: other Spark jobs of this session (a SparkBatchSpout's, say) would "
            "wait for ever; leave them a core if there are any"
        )
    if setting("spark.speculation", "false") == "true":
        problems.append("spark.speculation starts copies of tasks, which would be workers: set it to false")
    if setting("spark.dynamicAllocation.enabled", "false") == "true":
        most = int(setting("spark.dynamicAllocation.maxExecutors", "2147483647"))
        each = int(setting("spark.executor.cores", "1"))
        if most * each < slots * per_slot:
            problems.append(
                f"spark.dynamicAllocation.maxExecutors={most} is {most * each} cores, and {slots} slots need "
                f"{slots * per_slot}: raise it"
            )
        else:
            warnings.append("spark.dynamicAllocation is on: executors come when slots wait for them, which takes long")
    return SlotResources(cores, tuple(problems), tuple(warnings))


def _cores(master: str, local_cores: int, setting: Setting) -> int:
    if _LOCAL.fullmatch(master):
        return local_cores
    if found := _LOCAL_CLUSTER.fullmatch(master):
        return int(found[1]) * int(found[2])
    if master.startswith("spark://"):
        return int(setting("spark.cores.max", "0"))
    executors, cores = setting("spark.executor.instances", "0"), setting("spark.executor.cores", "0")
    return int(executors) * int(cores)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

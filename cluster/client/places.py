"""Places: whether what is submitted is where the nodes of the cluster find it: its code, its snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..snapshots.place import check_reach
from .errors import ClusterError

if TYPE_CHECKING:
    from ..nimbus import SupervisorRecord
    from .checking import CheckedTarget


@dataclass(frozen=True, slots=True)
class Here:
    """This machine: its name, which start of it this is, the home folder."""

    host: str
    boot: str
    home: str


def check_code_place(here: Here, supervisors: Mapping[str, SupervisorRecord]) -> None:
    """For a cluster that has no place for code but the home folder: ClusterError if a supervisor has another one."""
    others = sorted(
        name
        for name, each in supervisors.items()
        if each.host != here.host or each.home not in ("", here.home) or each.boot not in ("", here.boot)
    )
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise ClusterError(
            f"the code would be stored in {here.home}/blobs on {here.host}, where {', '.join(others[:3])}{more} cannot "
            "find it: start a cluster of several machines with `aiostorm nimbus --blobs URL`, a place that all of them "
            "reach (s3://…, file:///mounted/folder); or install the code on the nodes, and submit it without --code"
        )


def check_state_place(
    name: str, config: Mapping[str, Any], checked: CheckedTarget | None, supervisors: Mapping[str, SupervisorRecord]
) -> None:
    """ConfigError if snapshots would be in a folder of one node, and nodes have addresses: there may be several."""
    if not any(each.address for each in supervisors.values()):
        return
    guarantee = config.get("topology.guarantee") if checked is None else checked.guarantee
    if guarantee == "exactly-once":
        state = config.get("topology.state.dir") if checked is None else checked.state
        check_reach(str(state) if state else None, name)

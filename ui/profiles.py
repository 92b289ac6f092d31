"""Profiles: the routes of what was sampled: stalls by themselves, the rest when a user asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from ..cluster import RemoteTopology
from ..cluster.access import Role
from ..runtime import Profile  # noqa: TC001 - pydantic reads the annotations
from .commands import body_of
from .routes import VERSION, RefusedError, Route, document, watched_of

MOST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class ProfileList:
    """The last profiles, the last one first."""

    profiles: tuple[Profile, ...]


@dataclass(frozen=True, slots=True)
class ProfileOrder:
    """The body of `profile`: sample for so long; only this component, None: all."""

    seconds: float = 3.0
    component: str | None = None


async def profiles(request: web.Request) -> web.StreamResponse:
    """The profiles that are known."""
    running = watched_of(request).running
    found = await running.profile(0.0) if isinstance(running, RemoteTopology) else running.profiles()
    return document(ProfileList, ProfileList(tuple(found)))


async def profile(request: web.Request) -> web.StreamResponse:
    """Sample all processes now."""
    order = await body_of(request, ProfileOrder, ProfileOrder())
    running = watched_of(request).running
    if not 0 < order.seconds <= MOST_S:
        raise RefusedError(422, f"seconds is more than 0 and at most {MOST_S:g}")
    if order.component is not None and order.component not in running.topology.components:
        raise RefusedError(422, "this topology has no such component")
    found = await running.profile(order.seconds)
    if order.component is not None:
        found = [each.of_component(order.component) for each in found]
    return document(ProfileList, ProfileList(tuple(found)))


_ONE: Final = f"/api/{VERSION}/topologies/{{name:[^/]+}}"

PROFILING: Final = (
    Route("GET", f"{_ONE}/profiles", Role.VIEWER, profiles, "Where blocked and sampled code was.", ProfileList),
    Route(
        "POST",
        f"{_ONE}/profile",
        Role.OPERATOR,
        profile,
        "Samples all processes for a while.",
        ProfileList,
        ProfileOrder,
    ),
)

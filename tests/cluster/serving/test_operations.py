"""Every request declares a role, and nothing less than that role may send it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aiostorm.cluster.access import Role, request_frame, value_of
from aiostorm.cluster.nimbus import TopologyRecord
from aiostorm.cluster.serving import OPERATIONS, Operation, table_of
from aiostorm.cluster.serving.operations import Submit
from aiostorm.transport import ConnectionLostError

from .served import ROLES, place

DECLARED: Mapping[str, Role] = {
    "topologies": Role.VIEWER,
    "find": Role.VIEWER,
    "topology": Role.VIEWER,
    "errors": Role.VIEWER,
    "nodes": Role.VIEWER,
    "nimbuses": Role.VIEWER,
    "leader": Role.VIEWER,
    "logs": Role.VIEWER,
    "node_logs": Role.VIEWER,
    "activate": Role.OPERATOR,
    "deactivate": Role.OPERATOR,
    "rebalance": Role.OPERATOR,
    "update": Role.OPERATOR,
    "kill": Role.OPERATOR,
    "upload": Role.SUBMITTER,
    "submit": Role.SUBMITTER,
    "tokens": Role.ADMIN,
    "revoke": Role.ADMIN,
    "revoked_certificates": Role.ADMIN,
    "revoke_certificate": Role.ADMIN,
}
"""Said twice on purpose: who changes a role changes it here, too."""

ARGUMENTS: Mapping[str, dict[str, Any]] = {
    **{name: {"name": "none"} for name in DECLARED},
    "topologies": {},
    "nodes": {},
    "nimbuses": {},
    "leader": {},
    "node_logs": {"node": "none", "asked": {"name": "none"}},
    "tokens": {},
    "revoked_certificates": {},
    "revoke_certificate": {"sha256": "none"},
    "update": {"name": "none", "config": {}},
    "upload": {"size_bytes": 0, "sha256": "00" * 32},
    "submit": {"name": "none", "target": "file.py:topology", "workers": 1},
}
"""Of a request that does nothing, if it is allowed."""


async def nothing(session: object, given: object) -> None:
    raise AssertionError("never called")


def test_the_table_is_the_declared_one() -> None:
    assert {name: each.role for name, each in OPERATIONS.items()} == DECLARED
    assert [name for name, each in OPERATIONS.items() if each.changes] == [
        "activate",
        "deactivate",
        "rebalance",
        "update",
        "kill",
        "upload",
        "submit",
        "revoke",
        "revoke_certificate",
    ]


@pytest.mark.parametrize("role", [Role.PUBLIC, None, "viewer", ""])
def test_an_operation_without_a_role_cannot_be_registered(role: Any) -> None:
    with pytest.raises(ValueError, match="declares no role"):
        table_of([Operation("drain", role, nothing)])


def test_a_submission_carries_all_that_a_record_has() -> None:
    """A new field of the record is a new argument, or it would be lost on its way by a nimbus."""
    own = {"blob", "wanted", "generation", "submitted_by", "submitted_s", "wait_s"}  # the code comes by itself
    own |= {"renewed", "former", "refused", "updates", "update", "refused_update"}
    record = {each.name for each in dataclasses.fields(TopologyRecord)} - own
    assert {each.name for each in dataclasses.fields(Submit)} - {"name", "code", "initial", "replace"} == record


def test_a_name_is_registered_once() -> None:
    one = Operation("drain", Role.ADMIN, nothing)
    with pytest.raises(ValueError, match="two operations"):
        table_of([one, one])


@pytest.mark.sockets
async def test_each_role_may_send_what_its_role_includes_and_nothing_else(short_path: Path) -> None:
    async with place(short_path) as made:
        for role in ROLES:
            async with made.link(made.tokens[role]) as link:
                for name, needed in DECLARED.items():
                    _, error = value_of(await link.ask(name, ARGUMENTS[name], again=False))
                    denied = error is not None and error[0] == "DeniedError"
                    assert denied != role.includes(needed), (role, name, error)
        refused = [line for line in made.audit() if line["result"].startswith("refused: ")]
        assert {(line["role"], line["what"]) for line in refused} == {
            (role.value, name)
            for role in ROLES
            for name, needed in DECLARED.items()
            if OPERATIONS[name].changes and not role.includes(needed)
        }


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shell", {}),
        ("Topologies", {}),
        ("", {}),
        ("__class__", {}),
        ("kill", {}),
        ("kill", {"name": 1}),
        ("kill", {"name": "words", "wait_s": "1"}),
        ("kill", {"name": "words", "path": "/etc/passwd"}),
        ("topologies", {"name": "words"}),
        ("submit", {"name": "x", "target": "a:b", "workers": 1, "code": "/etc/passwd"}),
        ("submit", {"name": "x", "target": "a:b", "workers": 1, "blob": "00" * 32}),
        ("submit", {"name": "x", "target": "a:b", "workers": 1, "config": {"a": {"b": 1}}}),
        ("submit", {"name": "x", "target": "a:b", "workers": 1, "initial": "KILLED"}),
        ("submit", {"name": "x", "target": "a:b", "workers": 1, "submitted_by": "root"}),
        ("submit", {"name": "x", "target": "a:b", "workers": 1, "code": True}),
    ],
)
async def test_what_is_not_declared_is_refused(short_path: Path, name: str, arguments: dict[str, Any]) -> None:
    async with place(short_path) as made, made.link(made.tokens[Role.ADMIN]) as link:
        _, error = value_of(await link.ask(name, arguments, again=False))
        assert error is not None
        assert error[0] == "RequestError"
        value, _ = value_of(await link.ask("topologies", {}, again=False))
        assert value == b"[]"


@pytest.mark.sockets
async def test_before_the_handshake_no_request_is_read(short_path: Path) -> None:
    from aiostorm.transport import Credentials, Security, SocketNetwork

    async with place(short_path) as made, SocketNetwork(Security(Credentials.new("x"))) as network:
        connection = await network.connect(made.address)
        connection.send(request_frame("topologies", {}))
        assert await connection.receive() == b"\x95"  # refused
        with pytest.raises(ConnectionLostError):
            await connection.receive()

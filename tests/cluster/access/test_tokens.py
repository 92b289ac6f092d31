"""Tokens as a value: who is known, what the file holds, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.access import GIVEN, Role, Tokens, check_token_name
from aiostorm.transport import Credentials, CredentialsError, Secret

ANN = Credentials("ann", Secret(bytes(range(32))))
SUE = Credentials("sue", Secret(bytes(range(1, 33))))
NOW_S = 1_700_000_000.0


def two() -> Tokens:
    return Tokens().with_one(ANN, Role.OPERATOR, NOW_S, 60.0).with_one(SUE, Role.ADMIN, NOW_S)


def test_roles_are_ordered() -> None:
    order = [Role.PUBLIC, Role.VIEWER, Role.OPERATOR, Role.SUBMITTER, Role.ADMIN]
    for (i, one), (j, other) in itertools.product(enumerate(order), repeat=2):
        assert one.includes(other) == (i >= j)
    assert Role.PUBLIC not in GIVEN


def test_a_token_is_known_until_it_ends() -> None:
    tokens = two()
    found = tokens.check(ANN, NOW_S + 59.9)
    assert found is not None
    assert (found.name, found.role) == ("ann", Role.OPERATOR)
    assert tokens.check(ANN, NOW_S + 60) is None
    assert tokens.still(found, NOW_S + 60) is None
    sue = tokens.check(SUE, NOW_S + 1e9)
    assert sue is not None
    assert sue.role is Role.ADMIN


def test_what_is_not_a_token_of_this_name_is_not_known() -> None:
    tokens = two()
    others = (
        Credentials("ann", SUE.token),
        Credentials("sue", ANN.token),
        Credentials("Ann", ANN.token),
        Credentials("bob", ANN.token),
        Credentials("ann", Secret(bytes(32))),
        Credentials("ann", Secret(ANN.token.reveal() + b"\0")),
    )
    assert [tokens.check(each, NOW_S) for each in others] == [None] * len(others)
    assert tokens.check_key("bob", bytes(32), NOW_S) is None  # zeros stand for a name that is not there


def test_one_that_was_revoked_is_not_known_even_if_another_one_has_its_name() -> None:
    tokens = two()
    before = tokens.check(ANN, NOW_S)
    assert before is not None
    tokens = tokens.without("ann")
    assert tokens.check(ANN, NOW_S) is None
    assert tokens.still(before, NOW_S) is None
    tokens = tokens.with_one(Credentials("ann", SUE.token), Role.ADMIN, NOW_S)
    assert tokens.still(before, NOW_S) is None


def test_the_role_is_the_one_that_the_token_has_now() -> None:
    before = two().check(ANN, NOW_S)
    assert before is not None
    now = Tokens().with_one(ANN, Role.VIEWER, NOW_S).still(before, NOW_S)
    assert now is not None
    assert now.role is Role.VIEWER


def test_a_name_is_taken_until_its_token_has_ended() -> None:
    tokens = two()
    with pytest.raises(ValueError, match="already: revoke it"):
        tokens.with_one(ANN, Role.VIEWER, NOW_S + 59)
    assert tokens.with_one(SUE.__class__("ann", SUE.token), Role.VIEWER, NOW_S + 61).check(ANN, NOW_S) is None
    with pytest.raises(ValueError, match="there are: ann, sue"):
        tokens.without("bob")
    with pytest.raises(ValueError, match="valid for some time"):
        Tokens().with_one(ANN, Role.VIEWER, NOW_S, 0)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "../x", "a.b", "x" * 65, "ä", "a\n"])
def test_a_name_that_no_token_has(name: str) -> None:
    with pytest.raises(ValueError, match="1 to 64"):
        check_token_name(name)


def test_the_file_holds_no_token_and_nothing_that_authenticates() -> None:
    data = two().to_bytes()
    assert Tokens.from_bytes(data, "x") == two()
    for token in (ANN, SUE):
        assert token.token.reveal().hex().encode() not in data
        assert token.to_bytes().split(b".")[1].strip() not in data
    entry = two().entries["ann"]
    for stolen in (entry.stored_key, entry.server_key):
        assert two().check(Credentials("ann", Secret(bytes.fromhex(stolen))), NOW_S) is None


def damaged(change: object) -> bytes:
    document = json.loads(two().to_bytes())
    document["tokens"]["ann"].update(change)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"tokens": {}, "version": 2}',
        b"x" * 600_000,
        damaged({"role": "root"}),
        damaged({"role": "public"}),
        damaged({"role": None}),
        damaged({"stored_key": "00"}),
        damaged({"server_key": "G" * 64}),
        damaged({"ends_s": "soon"}),
        b'{"tokens": {"a b": %s}}' % json.dumps(json.loads(two().to_bytes())["tokens"]["ann"]).encode(),
    ],
)
def test_a_file_that_is_damaged_is_refused_as_a_whole_and_not_shown(data: bytes) -> None:
    with pytest.raises(CredentialsError, match=r"^the file") as raised:
        Tokens.from_bytes(data, "the file")
    assert two().entries["ann"].stored_key not in str(raised.value)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=20))
def test_only_the_last_token_of_a_name_is_known(steps: list[tuple[str, int, bool]]) -> None:
    tokens = Tokens()
    valid: dict[str, bytes] = {}
    for name, key, adds in steps:
        secret = bytes([key]) * 32
        if adds and name not in valid:
            tokens = tokens.with_one(Credentials(name, Secret(secret)), Role.VIEWER, NOW_S)
            valid[name] = secret
        elif not adds and name in valid:
            tokens = tokens.without(name)
            del valid[name]
    tokens = Tokens.from_bytes(tokens.to_bytes(), "x")
    for name, key in itertools.product("abc", range(4)):
        secret = bytes([key]) * 32
        known = tokens.check(Credentials(name, Secret(secret)), NOW_S) is not None
        assert known == (valid.get(name) == secret)


def test_a_holder_does_not_show_a_key() -> None:
    found = two().check(ANN, NOW_S)
    assert found is not None
    assert found.key not in repr(found)
    assert found.key in str(dataclasses.asdict(found))

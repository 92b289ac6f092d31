"""Which requests are answered: the whole matrix, and properties of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.access import GIVEN, Role, TokenFile
from aiostorm.transport import Credentials, Secret
from aiostorm.ui.guard import Asked, Guard, OneToken, Origin, parse_origin, split_host

OWN = ("127.0.0.1", 8080)
GOOD = Asked("GET", "http", True, OWN, ("127.0.0.1:8080",))
TOKEN = Secret(b"t" * 40)

WRONG_HOSTS = [
    (),
    ("",),
    ("127.0.0.1",),
    ("127.0.0.1:8081",),
    ("evil.example",),
    ("evil.example:8080",),
    ("127.0.0.1.evil.example:8080",),
    ("evil.127.0.0.1:8080",),
    ("localhost.evil.example:8080",),
    ("127.0.0.1:8080", "127.0.0.1:8080"),
    ("127.0.0.1:8080,evil.example",),
    ("127.0.0.1:8080 ",),
    ("127.0.0.1:8080\n",),
    ("user@127.0.0.1:8080",),
    ("0.0.0.0:8080",),
    ("2130706433:8080",),
    ("[::ffff:127.0.0.1]:8080",),
    ("unix:/x",),
]
WRONG_ORIGINS = [
    ("null",),
    ("",),
    ("http://evil.example",),
    ("http://evil.example:8080",),
    ("https://127.0.0.1:8080",),
    ("http://127.0.0.1",),
    ("http://127.0.0.1:80800",),
    ("http://127.0.0.1:8080.evil.example",),
    ("http://127.0.0.1:8080/",),
    ("http://127.0.0.1:8080@evil.example",),
    ("http://localhost:8080",),  # not the Host of this request
    ("127.0.0.1:8080",),
    ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ("file://",),
    ("chrome-extension://abc",),
]
ORDER = dataclasses.replace(GOOD, method="POST", csrf="1")


def status(asked: Asked, role: Role | None = Role.VIEWER, guard: Guard | None = None) -> int:
    refused = (guard or Guard()).refusal(asked, role)
    return 200 if refused is None else refused.status


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080"])
def test_its_own_names_are_accepted(host):
    assert status(dataclasses.replace(GOOD, hosts=(host,))) == 200


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("hosts", WRONG_HOSTS)
def test_a_wrong_host_is_refused_on_every_method(hosts, role):
    for method in ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert status(dataclasses.replace(ORDER, method=method, hosts=hosts), role) == 421


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("origins", WRONG_ORIGINS)
def test_a_foreign_origin_is_refused_on_every_method(origins, role):
    for method in ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS", "TRACE"):
        assert status(dataclasses.replace(ORDER, method=method, origins=origins), role) == 403


def test_its_own_origin_is_accepted():
    assert status(dataclasses.replace(ORDER, origins=("http://127.0.0.1:8080",)), Role.OPERATOR) == 200


@pytest.mark.parametrize("csrf", ["", "0", "true", "11", " 1"])
def test_what_changes_something_needs_the_header(csrf):
    for method in ("POST", "PATCH", "PUT", "DELETE"):
        assert status(dataclasses.replace(ORDER, method=method, csrf=csrf), Role.OPERATOR) == 403


def test_a_page_of_another_site_reads_no_data_but_may_link_to_the_page():
    link = dataclasses.replace(GOOD, fetch_site="cross-site", fetch_mode="navigate")
    assert status(link, Role.PUBLIC) == 200
    assert status(link, Role.VIEWER) == 403
    assert status(dataclasses.replace(link, fetch_mode="no-cors"), Role.PUBLIC) == 403
    assert status(dataclasses.replace(link, fetch_site="same-site")) == 403


def test_without_a_token_only_this_machine_is_answered():
    for role in Role:
        assert status(dataclasses.replace(GOOD, local=False), role) == 403


def test_a_route_without_a_role_is_refused():
    assert status(GOOD, None) == 403


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer " + "t" * 39,
        "Bearer " + "T" * 40,
        "Basic " + "t" * 40,
        "t" * 40,
        "Bearer é\udcff",
    ],
)
def test_a_wrong_token_is_refused(authorization):
    guard = Guard(bearers=OneToken(TOKEN))
    assert status(dataclasses.replace(GOOD, authorization=authorization), Role.VIEWER, guard) == 401
    assert status(dataclasses.replace(ORDER, authorization=authorization), Role.OPERATOR, guard) == 401
    assert status(GOOD, Role.PUBLIC, guard) == 200


def test_the_token_is_accepted_from_another_machine():
    names = (Origin("https", "storm.example", 443),)
    asked = dataclasses.replace(
        GOOD, scheme="https", local=False, hosts=("storm.example",), authorization="bearer " + "t" * 40
    )
    assert status(asked, Role.VIEWER, Guard(names, bearers=OneToken(TOKEN))) == 200
    elsewhere = dataclasses.replace(asked, hosts=("localhost:8080",))
    assert status(elsewhere, Role.VIEWER, Guard(names, bearers=OneToken(TOKEN))) == 421


async def test_the_tokens_of_a_cluster_have_its_roles(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens")
    for role in GIVEN:
        made = Credentials.new(role.value)
        tokens.add(made, role)
        header = f"Bearer {made.to_bytes().decode().strip()}"
        for needed, asked in ((Role.VIEWER, GOOD), (Role.OPERATOR, ORDER)):
            found = status(dataclasses.replace(asked, authorization=header), needed, Guard(bearers=tokens))
            assert found == (200 if role.includes(needed) else 403)
    wrong = dataclasses.replace(GOOD, authorization=f"Bearer {Credentials.new('admin').to_bytes().decode().strip()}")
    assert status(wrong, Role.VIEWER, Guard(bearers=tokens)) == 401


def test_read_only_refuses_orders_and_nothing_else():
    assert status(ORDER, Role.OPERATOR, Guard(read_only=True)) == 403
    assert status(GOOD, Role.VIEWER, Guard(read_only=True)) == 200


def test_a_short_token_is_an_error():
    with pytest.raises(ValueError, match="32 characters"):
        OneToken(Secret(b"short"))


def test_a_unix_socket_is_this_machine():
    assert status(dataclasses.replace(GOOD, own=None, hosts=("localhost",))) == 200
    assert status(dataclasses.replace(GOOD, own=None, hosts=("evil.example",))) == 421


HOSTS = st.one_of(
    st.text(max_size=30), st.sampled_from(["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "a.example", "127.0.0.1"])
)


@given(
    st.lists(HOSTS, max_size=2).map(tuple),
    st.lists(st.one_of(st.text(max_size=30), HOSTS.map("http://{}".format)), max_size=2).map(tuple),
)
def test_only_the_identical_origin_passes(hosts, origins):
    asked = dataclasses.replace(GOOD, hosts=hosts, origins=origins)
    if status(asked) == 200:
        [host] = hosts
        assert split_host(host, "http") in {("127.0.0.1", 8080), ("localhost", 8080), ("::1", 8080)}
        assert [parse_origin(each) for each in origins] in ([], [Origin("http", *split_host(host, "http"))])

"""The pages of a cluster: what is shown, ordered, and refused. Over real sockets, with a store in a file."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace

import pytest

from aiostorm.cluster.nimbus import SUPERVISORS, TOPOLOGIES, SupervisorRecord, pack, path_of
from aiostorm.transport import Secret
from aiostorm.ui.managed import nimbus_rows
from aiostorm.ui.process_logs import PIECE_BYTES, logged_processes, read_piece

from .clusters import Put, stored_cluster
from .parts import served, small

pytestmark = pytest.mark.sockets

LOGS = "api/v1/cluster/topologies/orders/logs"


async def test_it_shows_who_leads_the_nodes_and_the_topologies():
    async with stored_cluster() as page:
        found = (await page.ask("GET", "api/v1/cluster")).json()
    assert found["store"] == page.home.store_url
    assert [(row["name"], row["host"], row["pid"], row["leads"]) for row in found["nimbuses"]] == [
        ("host-1", "host-1", 11, True),
        ("n2", "host-2", 22, False),
    ]
    assert [(row["name"], row["used"], row["slots"], row["parents"], row["labels"]) for row in found["nodes"]] == [
        ("node-a", 1, 2, ["orders"], ["gpu"]),
        ("node-b", 1, 4, [], []),
    ]
    large, orders = found["topologies"]
    assert (orders["state"], orders["placed"], orders["workers"], orders["degraded"]) == (
        "ACTIVE",
        2,
        2,
        "worker-2 is away",
    )
    assert orders["where"] == {"parent": "node-a", "worker-1": "node-a", "worker-2": "node-b"}
    assert orders["shown"] is False
    assert (large["state"], large["placed"], large["running_generation"]) == ("WAITING", 0, None)
    assert "99 slots are needed, and 4 are free" in large["waiting"]


async def test_the_list_of_topologies_says_whether_there_is_a_cluster():
    async with stored_cluster() as page:
        assert (await page.ask("GET", "api/v1/topologies")).json()["cluster"] is True
    async with served() as page:
        assert (await page.ask("GET", "api/v1/topologies")).json()["cluster"] is False
        for path in ("api/v1/cluster", "api/v1/nodes", "api/v1/nodes/a", LOGS, f"{LOGS}/parent"):
            answer = await page.ask("GET", path)
            assert (answer.status, "not of a cluster" in answer.json()["error"]) == (404, True)


async def test_it_shows_a_node_with_its_processes():
    async with stored_cluster() as page:
        page.log("orders", "worker-1").write_text("hello\n")
        found = (await page.ask("GET", "api/v1/nodes/node-a")).json()
        assert found["node"]["host"] == "host-1"
        assert [(row["topology"], row["process"], row["has_log"]) for row in found["processes"]] == [
            ("orders", "parent", False),
            ("orders", "worker-1", True),
        ]
        assert [row["name"] for row in (await page.ask("GET", "api/v1/nodes")).json()["nodes"]] == ["node-a", "node-b"]
        assert (await page.ask("GET", "api/v1/nodes/other")).status == 404


async def test_orders_are_written_to_the_store():
    async with stored_cluster() as page:
        one = "api/v1/topologies/orders"
        answer = await page.order("POST", f"{one}/deactivate")
        assert (answer.status, answer.json()["message"]) == (202, "is to be inactive")
        assert (await page.record("orders")).wanted == "INACTIVE"
        await page.order("POST", f"{one}/activate")
        assert (await page.record("orders")).wanted == "ACTIVE"
        answer = await page.order("POST", f"{one}/rebalance", {"workers": 3})
        assert (answer.status, answer.json()["message"]) == (202, "is to be spread anew, with 3 workers")
        record = await page.record("orders")
        assert (record.workers, record.generation) == (3, 2)
        await page.order("POST", f"{one}/rebalance")
        assert (await page.record("orders")).generation == 3
        answer = await page.order("POST", f"{one}/kill", {"wait_s": 5.0})
        assert (answer.status, answer.json()["state"]) == (202, "ENDING")
        record = await page.record("orders")
        assert (record.wanted, record.wait_s) == ("KILLED", 5.0)
        assert (await page.ask("GET", "api/v1/cluster")).json()["topologies"][1]["state"] == "ENDING"
        answer = await page.order("POST", f"{one}/activate")
        assert (answer.status, "is being killed" in answer.json()["error"]) == (409, True)


REBALANCE = "api/v1/topologies/orders/rebalance"


async def test_a_rebalance_takes_what_the_command_takes():
    async with stored_cluster() as page:
        body = {"parallelism": {"split": 4, "count": 8}, "pins": {"store": "ssd", "detect": []}, "drain_s": 0}
        answer = await page.order("POST", REBALANCE, body)
        message = "is to be spread anew, split=4, count=8, store on ssd, detect on any node"
        assert (answer.status, answer.json()["message"]) == (202, message)
        record = await page.record("orders")
        assert (record.workers, record.generation, record.wait_s) == (2, 2, 0)
        assert record.parallelism == {"split": 4, "count": 8}
        assert record.pins == {"store": frozenset({"ssd"})}
        line = json.loads(page.home.audit.read_text())
        assert line["arguments"] == {
            "name": "orders",
            "workers": None,
            "parallelism": {"split": 4, "count": 8},
            "drain_s": 0,
            "pins": {"store": ["ssd"], "detect": []},
        }
        await page.order("POST", REBALANCE, {"workers": 1, "pins": {"detect": ["gpu", "ssd"]}})
        record = await page.record("orders")
        assert record.pins == {"store": frozenset({"ssd"}), "detect": frozenset({"gpu", "ssd"})}
        assert (record.workers, record.parallelism, record.wait_s) == (1, {"split": 4, "count": 8}, None)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"workers": 0}, "1 to 1,000"),
        ({"workers": 100_000}, "1 to 1,000"),
        ({"workers": "3"}, "workers: "),
        ({"workers": True}, "workers: "),
        ([], "object"),
        ({"worker": 3}, "worker: "),
        ({"check": False}, "check: "),
        ({"parallelism": {"split": 0}}, "split has 1 to 100,000 tasks"),
        ({"parallelism": {"split": 10**30}}, "split has 1 to 100,000 tasks"),
        ({"parallelism": {"split": 60_000, "count": 60_000}}, "not 120,000: lower some"),
        ({"parallelism": {"split": "4"}}, "parallelism.split: "),
        ({"parallelism": {"split": True}}, "parallelism.split: "),
        ({"parallelism": {"split": 1.5}}, "parallelism.split: "),
        ({"parallelism": ["split"]}, "parallelism: "),
        ({"parallelism": {"": 4}}, "'' is no component"),
        ({"parallelism": {"a\nb\x1b[2J": 4}}, "is no component"),
        ({"pins": {"x" * 129: "gpu"}}, "is no component"),
        ({"pins": {"detect": ""}}, "1 to 100 printable characters"),
        ({"pins": {"detect": ["gpu", "\x00"]}}, "1 to 100 printable characters"),
        ({"pins": {"detect": "x" * 101}}, "1 to 100 printable characters"),
        ({"pins": {"detect": 3}}, "pins.detect"),
        ({"pins": {"detect": [3]}}, "pins.detect"),
        ({"pins": {"detect": None}}, "pins.detect"),
        ({"pins": {f"c{i}": f"l{i}" for i in range(9)}}, "give nodes that serve several components one label"),
        ({"pins": {f"c{i}": f"l{i}" for i in range(8)}}, "give nodes that serve several components one label"),
        ({"pins": {f"c{i}": "gpu" for i in range(1_001)}}, "at most 1,000 pinned components"),
        ({"drain_s": -1}, "drain_s is 0 to 604,800 seconds"),
        ({"drain_s": 604_800}, "drain_s is 0 to 604,800 seconds"),
        ({"drain_s": float("nan")}, "drain_s"),
        ({"drain_s": float("inf")}, "drain_s"),
        ({"drain_s": "5"}, "drain_s: "),
        ({"drain_s": False}, "drain_s: "),
    ],
)
async def test_a_wrong_rebalance_is_refused(body, says):
    async with stored_cluster() as page:
        before = await page.record("orders")
        answer = await page.order("POST", REBALANCE, body)
        assert (answer.status, says in answer.json()["error"]) == (422, True), answer.body
        assert "\x1b" not in answer.json()["error"]
        assert await page.record("orders") == before


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"workers": 1', b"[" * 5_000, b'{"workers": ' + b"9" * 5_000 + b"}"])
async def test_a_rebalance_that_is_no_json_is_refused(body):
    async with stored_cluster() as page:
        headers = {"X-Aiostorm": "1", "Content-Type": "application/json"}
        assert (await page.ask("POST", REBALANCE, headers, data=body)).status == 422
        assert (await page.record("orders")).generation == 1


async def test_a_component_that_is_not_there_is_refused_where_the_topology_is_known():
    async with stored_cluster() as page:
        running = await page.cluster.submit("orders", small())
        found = (await page.ask("GET", "api/v1/cluster")).json()["topologies"][1]
        assert (found["shown"], found["tasks"]) == (True, {"numbers": 1, "half": 2, "ignore": 1, "split": 2})
        for body in ({"parallelism": {"halv": 4}}, {"pins": {"halv": "gpu"}}):
            answer = await page.order("POST", REBALANCE, body)
            says = "there is no component 'halv': there are numbers, half, ignore"
            assert (answer.status, answer.json()["error"].startswith(says)) == (422, True), answer.body
        assert (await page.order("POST", REBALANCE, {"parallelism": {"half": 4}, "pins": {"halv": []}})).status == 202
        answer = await page.order("POST", REBALANCE, {"parallelism": {"halv": 4}})
        assert answer.status == 202, "what is to run next may have other code: its parent says whether it can run"
        await running.kill(0)


async def test_settings_that_are_changed_are_written_to_the_store():
    async with stored_cluster() as page:
        running = await page.cluster.submit("orders", small())
        config = "api/v1/topologies/orders/config"
        answer = await page.order("PATCH", config, {"settings": {"max_spout_pending": 7}})
        assert (answer.status, running.config.max_spout_pending) == (200, 7)
        record = await page.record("orders")
        assert (record.updates, record.update) == ({"topology.max.spout.pending": 7}, 1)
        answer = await page.order("PATCH", config, {"settings": {"topology.workers": 7}})
        assert answer.status == 422
        assert (await page.record("orders")).update == 1
        *_, line = map(json.loads, (page.home.path / "audit.log").read_text().splitlines())
        assert (line["what"], line["arguments"]["config"]) == ("update", {"topology.max.spout.pending": 7})
        await running.kill(0)


async def test_pins_and_what_nodes_are_kept_for_are_shown():
    async with stored_cluster() as page:
        orders = replace(await page.record("orders"), config={"topology.isolate.machines": 2})
        limited = SupervisorRecord("host-2", "10.0.0.2", 4, "0.1", limits="cgroup")
        await page.client.commit(
            [
                Put(path_of(TOPOLOGIES, "orders"), pack(orders)),
                Put(path_of(SUPERVISORS, "node-b"), pack(limited)),
            ]
        )
        found = (await page.ask("GET", "api/v1/cluster")).json()
        assert [(row["isolated"], row["limits"]) for row in found["nodes"]] == [("orders", ""), ("orders", "cgroup")]
        large, shown = found["topologies"]
        assert (shown["pins"], shown["tasks"]) == ({"detect": ["big", "gpu"]}, {"split": 2})
        assert (large["pins"], large["tasks"]) == ({}, {})
        node = (await page.ask("GET", "api/v1/nodes/node-b")).json()["node"]
        assert (node["isolated"], node["limits"]) == ("orders", "cgroup")


async def test_nothing_is_ordered_without_the_header_or_when_it_is_read_only():
    async with stored_cluster() as page:
        for order in ("activate", "deactivate", "rebalance", "kill"):
            answer = await page.ask("POST", f"api/v1/topologies/orders/{order}", json={})
            assert (answer.status, "X-Aiostorm" in answer.json()["error"]) == (403, True)
        assert await page.client.get(path_of(TOPOLOGIES, "orders")) is not None
    async with stored_cluster(read_only=True) as page:
        for order in ("activate", "deactivate", "rebalance", "kill"):
            assert (await page.order("POST", f"api/v1/topologies/orders/{order}", {})).status == 403
        record = await page.record("orders")
        assert (record.wanted, record.generation) == ("ACTIVE", 1)


async def test_orders_of_the_page_are_in_the_audit_log():
    async with stored_cluster() as page:
        assert (await page.ask("GET", "api/v1/cluster")).status == 200
        assert not page.home.audit.exists(), "who looks is not in it"
        await page.order("POST", "api/v1/topologies/orders/kill", {"wait_s": 3})
        line = json.loads(page.home.audit.read_text())
        assert (line["who"], line["role"], line["from"]) == ("the page", "operator", "the page, asked by 127.0.0.1")
        assert (line["what"], line["arguments"]) == ("kill", {"name": "orders", "wait_s": 3})
    async with stored_cluster(token=Secret(b"0123456789abcdef" * 2)) as page:
        bearer = {"Authorization": f"Bearer {'0123456789abcdef' * 2}"}
        assert (await page.order("POST", "api/v1/topologies/orders/deactivate", **bearer)).status == 202
        line = json.loads(page.home.audit.read_text())
        assert (line["who"], line["role"], line["what"]) == ("the token", "operator", "deactivate")
        page.home.audit.unlink()
        page.home.audit.mkdir()
        answer = await page.order("POST", "api/v1/topologies/orders/kill", **bearer)
        assert (answer.status, "audit log cannot be written" in answer.json()["error"]) == (503, True)
        assert (await page.record("orders")).wanted == "INACTIVE"


async def test_output_needs_the_token():
    async with stored_cluster(token=Secret(b"0123456789abcdef0123456789abcdef")) as page:
        page.log("orders", "parent").write_text("a secret of the topology\n")
        answer = await page.ask("GET", f"{LOGS}/parent")
        assert (answer.status, b"secret" in answer.body) == (401, False)


async def test_the_output_of_a_process_is_followed():
    async with stored_cluster() as page:
        log = page.log("orders", "worker-1")
        log.write_text("one\ntwo\n")
        page.log("orders", "parent").write_text("")
        assert (await page.ask("GET", LOGS)).json()["processes"] == ["parent", "worker-1"]
        first = (await page.ask("GET", f"{LOGS}/worker-1")).json()
        assert (first["text"], first["next"], first["again"]) == ("one\ntwo\n", 8, False)
        with log.open("a") as file:
            file.write("three\nfo")
        second = (await page.ask("GET", f"{LOGS}/worker-1?from=8")).json()
        assert (second["text"], second["next"], second["skipped"]) == ("three\n", 14, 0)
        assert (await page.ask("GET", f"{LOGS}/worker-1?from=x")).status == 400
        log.write_text("anew\n")  # by a rotation
        third = (await page.ask("GET", f"{LOGS}/worker-1?from=14")).json()
        assert (third["text"], third["again"]) == ("anew\n", True)


async def test_what_is_asked_for_never_becomes_a_path():
    async with stored_cluster() as page:
        page.log("orders", "parent").write_text("fine\n")
        (page.home.path / "credentials.log").write_text("secret")
        (page.home.logs("orders") / "other.log").write_text("secret")
        for process in ("%2e%2e%2f%2e%2e%2fcredentials", "..", "other", "parent.log", "parent%00", "%2fetc%2fpasswd"):
            answer = await page.ask("GET", f"{LOGS}/{process}")
            assert (answer.status, b"secret" in answer.body) == (404, False), process
        for name in ("..", "%2e%2e", "other", "orders%2f..%2forders"):
            answer = await page.ask("GET", f"api/v1/cluster/topologies/{name}/logs/parent")
            assert answer.status in (404, 421), name


async def test_a_store_that_is_not_there_is_said():
    async with stored_cluster() as page:
        (page.home.path / "cluster.db").rename(page.home.path / "away.db")
        answer = await page.ask("GET", "api/v1/cluster")
        assert (answer.status, "is no cluster yet" in answer.json()["error"]) == (503, True)


@pytest.mark.skipif(sys.platform == "win32", reason="no links")
def test_a_link_is_not_read(tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "parent.log").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "worker-1.log")
    found = logged_processes(tmp_path)
    for process in ("parent", "worker-1"):
        with pytest.raises(OSError, match="is no file"):
            read_piece("orders", process, found[process], None)


def test_a_long_output_begins_at_a_line_near_its_end(tmp_path):
    path = tmp_path / "parent.log"
    line = b"x" * 99 + b"\n"
    path.write_bytes(line * 10_000)
    piece = read_piece("orders", "parent", path, None)
    assert len(piece.text) <= PIECE_BYTES
    assert piece.text.startswith("x" * 99 + "\n")
    assert (piece.skipped + len(piece.text), piece.next) == (1_000_000, 1_000_000)
    later = read_piece("orders", "parent", path, 100)
    assert (later.skipped > 0, later.next) == (True, 1_000_000)


def test_a_line_without_an_end_and_bytes_that_are_no_text_are_shown(tmp_path):
    path = tmp_path / "parent.log"
    path.write_bytes(b"\xff" * (PIECE_BYTES + 10))
    piece = read_piece("orders", "parent", path, None)
    assert (len(piece.text), piece.skipped) == (PIECE_BYTES, 10)
    path.write_bytes(b"")
    assert read_piece("orders", "parent", path, None).text == ""


def test_a_nimbus_that_says_something_else_of_itself_is_shown() -> None:
    found = nimbus_rows("[3]", ["[3]", "{", '{"pid": 1}'])
    assert [(row.name, row.pid, row.leads) for row in found] == [
        ("[3]", 0, True),
        ("{", 0, False),
        ('{"pid": 1}', 0, False),
    ]
    assert nimbus_rows(None, []) == ()

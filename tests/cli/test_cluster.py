"""The commands of a cluster, over a real store in a file. Nimbus is real, in a thread; parents are records only."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from aiostorm.cluster import Home
from aiostorm.cluster.coordination import Coordination, Create, Delete, NoNodeError, Put, open_coordination
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    Nimbus,
    ParentRecord,
    RefusedUpdate,
    SupervisorRecord,
    TopologyRecord,
    pack,
    path_of,
    unpack,
)
from aiostorm.runtime import LoopClock

from .cluster_store import WORDS, Store, filled
from .conftest import Command, Process


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.delenv("AIOSTORM_STORE", raising=False)
    monkeypatch.setenv("AIOSTORM_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    made = Store(home)
    made.make()
    yield made
    made.close()


# -- looking -----------------------------------------------------------------------------------------------------------


COMMANDS = (
    ("list",),
    ("nodes",),
    ("show", "x"),
    ("activate", "x"),
    ("deactivate", "x"),
    ("rebalance", "x"),
    ("kill", "x"),
    ("submit", "jobs:topology", "--name", "x", "--no-check", "--wait", "0"),
)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_where_there_is_no_cluster(aiostorm: Command, home: Home, arguments: tuple[str, ...]) -> None:
    outcome = aiostorm(*arguments)
    assert (outcome.code, outcome.out) == (69, "")
    assert "is no cluster yet: start its daemons, `aiostorm nimbus` and `aiostorm supervisor`" in outcome.err
    assert not home.path.exists(), "a client makes nothing"
    made = Store(home)  # a store that no nimbus has used
    made.close()
    assert aiostorm(*arguments).code == 69


@pytest.mark.parametrize("url", ["redis://x", "sqlite:", "zk://user:pw@host/x"])
def test_a_store_that_there_cannot_be(aiostorm: Command, home: Home, url: str) -> None:
    outcome = aiostorm("list", "--store", url)
    assert outcome.code == 2
    assert "pw" not in outcome.err


def test_topologies_are_listed(aiostorm: Command, store: Store) -> None:
    assert aiostorm("list").out == "no topologies: `aiostorm submit` hands one over\n"
    assert aiostorm("list", "--json").json == {"topologies": []}
    filled(store)
    outcome = aiostorm("list")
    assert (outcome.code, outcome.err) == (0, "")
    head, large, words = outcome.out.splitlines()
    assert head.split() == ["name", "state", "workers", "nodes", "submitted"]
    assert words.split("  ")[0] == "words"
    assert words.split() == ["words", "ACTIVE", "3", "2", "2023-11-14", "22:13:20+00:00"]
    assert large.startswith("large  WAITING   0 of 9")
    assert "9 slots are needed, and 3 are free" in large
    found = aiostorm("list", "--json").json["topologies"]
    assert [each["name"] for each in found] == ["large", "words"]
    assert found[0]["waiting"].startswith("9 slots are needed, and 3 are free: 2 supervisors have 6 slots")
    assert found[1]["where"] == {"parent": "a", "worker-1": "a", "worker-2": "a", "worker-3": "b"}


def test_another_cluster_is_named_by_options(aiostorm: Command, store: Store, tmp_path: Path) -> None:
    filled(store)
    url = f"sqlite:{store.home.path}/cluster.db"
    for options in (("--home", str(store.home.path)), ("--store", url)):
        assert aiostorm("list", *options).code == 0
    assert aiostorm("list", "--home", str(tmp_path / "other")).code == 69
    assert aiostorm("list", "--home", str(tmp_path / "other"), "--store", url).code == 0


def test_a_topology_is_shown(aiostorm: Command, store: Store) -> None:
    filled(store)
    outcome = aiostorm("show", "words")
    assert (outcome.code, outcome.err) == (0, "")
    facts, processes, errors = outcome.out.split("\n\n")
    assert facts.splitlines() == [
        "topology    words",
        "state       ACTIVE",
        "target      jobs.words:make a b",
        f"code        {'ab' * 32}",
        "workers     3",
        "generation  1",
        "submitted   2023-11-14 22:13:20+00:00 by ann@here",
        "runs since  2023-11-14 22:13:25+00:00",
        "settings    topology.max.spout.pending=500",
    ]
    assert [line.split() for line in processes.splitlines()] == [
        ["process", "node"],
        ["parent", "a"],
        ["worker-1", "a"],
        ["worker-2", "a"],
        ["worker-3", "b"],
    ]
    assert errors.splitlines()[1] == r"2023-11-14 22:13:27+00:00  split[2]  ValueError: bad\nword"
    found = aiostorm("show", "words", "--json").json
    assert (found["state"], found["config"], found["arguments"]) == ("ACTIVE", WORDS.config, ["a", "b"])
    assert found["errors"] == [{"at_s": 1_700_000_007.0, "where": "split[2]", "text": "ValueError: bad\nword"}]


def test_a_topology_that_could_not_take_settings_over_says_so(aiostorm: Command, store: Store) -> None:
    refused = replace(WORDS, update=1, refused_update=RefusedUpdate(1, "it has windows", 1_700_000_009.0))
    store.put(TOPOLOGIES, "words", refused)
    assert "update refused  it has windows" in aiostorm("show", "words").out
    assert aiostorm("show", "words", "--json").json["refused_update"]["why"] == "it has windows"


def test_an_update_names_its_cluster(aiostorm: Command, store: Store) -> None:
    filled(store)
    outcome = aiostorm("update", "wrods", "-c", "topology.debug=true")
    assert (outcome.code, "no topology 'wrods' of yours runs here" in outcome.err) == (2, True)
    outcome = aiostorm("update", "wrods", "-c", "topology.debug=true", "--home", str(store.home.path))
    assert (outcome.code, "did you mean 'words'" in outcome.err) == (2, True)
    outcome = aiostorm("update", "words", "-c", "topology.debug=true", "--home", str(store.home.path / "none"))
    assert (outcome.code, "is no cluster yet" in outcome.err) == (69, True)


@pytest.mark.parametrize("command", ["show", "activate", "deactivate", "rebalance", "kill"])
def test_an_unknown_name(aiostorm: Command, store: Store, command: str) -> None:
    outcome = aiostorm(command, "wrods")
    assert (outcome.code, outcome.err) == (2, "Error: no topology 'wrods': there is none at all\n")
    filled(store)
    assert aiostorm(command, "wrods").err == "Error: no topology 'wrods': did you mean 'words'?\n"
    assert "a topology's name is" in aiostorm(command, "../x").err


def test_nodes_are_listed(aiostorm: Command, store: Store) -> None:
    assert aiostorm("nodes").out == ("nimbus: none leads (aiostorm nimbus)\nno supervisors (aiostorm supervisor)\n")
    filled(store)
    store.lead()
    leads, empty, head, *rows = aiostorm("nodes").out.splitlines()
    assert (leads, empty) == ("nimbus: host:1 leads", "")
    assert head.split("  ")[0] == "node"
    assert [row.split() for row in rows] == [
        ["a", "host-a", "2", "of", "4", "1", "ssd", "0.1.0"],
        ["b", "host-b", "1", "of", "2", "0", "0.1.0"],
    ]
    found = aiostorm("nodes", "--json").json
    assert found["leader"] == "host:1"
    assert [(node["name"], node["used"], node["parents"]) for node in found["nodes"]] == [
        ("a", 2, ["words"]),
        ("b", 1, []),
    ]


# -- orders ------------------------------------------------------------------------------------------------------------


def test_orders_are_written(aiostorm: Command, store: Store) -> None:
    filled(store)
    store.lead()
    outcome = aiostorm("deactivate", "words")
    assert (outcome.code, outcome.out, outcome.err) == (0, "words is to be inactive\n", "")
    found = store.topology("words")
    assert found is not None
    assert found.wanted == "INACTIVE"
    assert aiostorm("activate", "words", "--json").json["wanted"] == "ACTIVE"
    outcome = aiostorm("rebalance", "words", "--workers", "5", "--wait", "0")
    assert (outcome.code, outcome.out) == (0, "words is to be rebalanced\n")
    found = store.topology("words")
    assert found is not None
    assert (found.workers, found.generation) == (5, 2)
    tasks = ("-e", "split=4", "--parallelism", "count=2", "-w", "3", "--no-check")
    assert aiostorm("rebalance", "words", *tasks, "--wait", "0").code == 0
    found = store.topology("words")
    assert found is not None
    assert (found.parallelism, found.wait_s, found.workers) == ({"split": 4, "count": 2}, 3.0, 5)
    shown = aiostorm("show", "words").out
    assert "tasks       count=2, split=4" in shown and "kept        generation 1, until" in shown  # noqa: PT018
    assert aiostorm("show", "words", "--json").json["former"]["generation"] == 1
    assert aiostorm("update", "words", "-c", "max_spout_pending=60", "--wait", "0").out == (
        "topology.max.spout.pending: 500 → 60\n"
    )
    outcome = aiostorm("update", "words", "-c", "topology.debug=true", "--wait", "0", "--json")
    changed = {"topology.debug": {"before": None, "after": True}}
    assert outcome.json == {"topology": "words", "update": 2, "holds": False, "changed": changed}
    found = store.topology("words")
    assert found is not None
    assert found.updates == {"topology.max.spout.pending": 60, "topology.debug": True}
    assert found.config == {"topology.max.spout.pending": 500}
    again = aiostorm("update", "words", "-c", "topology.debug=true", "--wait", "0")
    assert again.out == "no changes: all settings already have these values\n"
    outcome = aiostorm("update", "words", "-c", "topology.workers=9")
    assert (outcome.code, "topology.workers cannot be changed while a topology runs" in outcome.err) == (2, True)
    shown = aiostorm("show", "words").out
    assert "changed     topology.debug=True, topology.max.spout.pending=60" in shown
    outcome = aiostorm("rebalance", "words", "--wait", "0.3")
    assert outcome.code == 1
    assert "does not run after 0.3 s" in outcome.err


@pytest.mark.parametrize("given", ["split", "split=", "=3", "split=0", "split=-1", "split=x"])
def test_tasks_that_there_cannot_be(aiostorm: Command, store: Store, given: str) -> None:
    outcome = aiostorm("rebalance", "words", "-e", given)
    assert outcome.code == 2
    assert f"{given!r} is not COMPONENT=TASKS, as in split=4" in outcome.err
    outcome = aiostorm("submit", "a:b", "--replace", "words", "--name", "x", "--no-check")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--replace NAME names the topology" in outcome.err
    filled(store)
    assert aiostorm("submit", "a:b", "--replace", "words", "--no-check", "--wait", "0").out == "words is submitted\n"


def test_orders_are_kept_while_no_nimbus_leads(aiostorm: Command, store: Store) -> None:
    filled(store)
    outcome = aiostorm("deactivate", "words")
    assert (outcome.code, outcome.out) == (0, "words is to be inactive\n")
    assert "no nimbus leads now: the order is kept" in outcome.err
    for command in (("kill", "-w", "0", "words"), ("submit", "a:b", "--name", "x", "--no-check", "--wait", "1")):
        outcome = aiostorm(*command)
        assert outcome.code == 69
        assert "is kept, and carried out when one does (aiostorm nimbus)" in outcome.err
    found = store.topology("words")
    assert found is not None
    assert (found.wanted, found.wait_s) == ("KILLED", 0)
    assert aiostorm("submit", "a:b", "--name", "y", "--no-check", "--wait", "0").code == 0
    declared = ("--worker-memory", "512MiB", "--worker-cores", "1.5")
    found = aiostorm("submit", "a:b", "--name", "z", "--no-check", "--wait", "0", *declared, "--json").json
    assert (found["worker_memory_bytes"], found["worker_cores"]) == (512 << 20, 1.5)
    outcome = aiostorm("submit", "a:b", "--name", "q", "--no-check", "--worker-memory", "63MiB")
    assert (outcome.code, outcome.err) == (2, "Error: a worker needs 64 MiB of memory or more, not 63 MiB\n")
    assert store.topology("y") is not None


async def _parents(client: Coordination) -> None:
    """As supervisors and parents would: what is assigned runs, what is killed ends."""
    while True:
        await asyncio.sleep(0.05)
        with contextlib.suppress(NoNodeError):
            for name in await client.children(ASSIGNMENTS):
                node = await client.get(f"{TOPOLOGIES}/{name}")
                wanted = "KILLED" if node is None else unpack(TopologyRecord, name, node.value).wanted
                path = path_of(PARENTS, name)
                there = await client.get(path)
                if there is None and wanted != "KILLED":
                    record = ParentRecord("a", 1, state=wanted)
                    await client.commit([Create(path, pack(record), ephemeral=True), Put(PARENTS, b"")])
                elif there is not None and wanted == "KILLED":
                    await client.commit([Delete(path)])


@pytest.fixture
def daemons(home: Home) -> Iterator[Home]:
    """Nimbus, and a supervisor with 3 slots."""
    started, loops = threading.Event(), []

    async def run() -> None:
        loops.append((asyncio.get_running_loop(), asyncio.current_task()))
        url = home.store_url
        async with (
            open_coordination(url, LoopClock()) as first,
            open_coordination(url, LoopClock()) as second,
            asyncio.TaskGroup() as group,
        ):
            watch = await second.watch("/leader")
            group.create_task(Nimbus(first, LoopClock(), b"nimbus").run())
            while await second.get("/leader/holder") is None:
                await watch.changed()
            record = SupervisorRecord(platform.node(), "", 3)  # of this machine alone
            await second.commit([Create(path_of(SUPERVISORS, "a"), pack(record), ephemeral=True)])
            group.create_task(_parents(second))
            started.set()

    def program() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(run())

    thread = threading.Thread(target=program)
    thread.start()
    assert started.wait(20)
    yield home
    ((loop, task),) = loops
    loop.call_soon_threadsafe(task.cancel)
    thread.join(20)


def code(folder: Path) -> Path:
    (folder / "jobs").mkdir(parents=True)
    (folder / "jobs" / "__init__.py").write_text("")
    (folder / "jobs" / "sums.py").write_text(
        "from aiostorm import TopologyBuilder, spout\n\n@spout(outputs='n')\ndef numbers():\n    yield 1\n\n"
        "def make(name='sums'):\n    builder = TopologyBuilder()\n    builder.set_spout('numbers', numbers)\n"
        "    return builder.create_topology(name)\n"
    )
    return folder


def test_a_topology_is_submitted_runs_and_is_killed(aiostorm: Command, daemons: Home, tmp_path: Path) -> None:
    folder = code(tmp_path / "in")
    outcome = aiostorm("submit", "--code", str(folder), "jobs.sums:make", "-c", "topology.max.spout.pending=7")
    assert (outcome.code, outcome.out) == (0, "sums is ACTIVE: 2 workers on 1 node\n"), outcome.err
    assert "sums is submitted; waits until it runs" in outcome.err
    found = aiostorm("show", "sums", "--json").json
    assert found["config"] == {"topology.max.spout.pending": 7}
    assert (daemons.blobs / f"{found['blob']}.blob").is_file()
    outcome = aiostorm("submit", "--code", str(folder), "jobs.sums:make", "--name", "sums")
    assert (outcome.code, outcome.out) == (2, "")
    assert "'sums' is there already: kill it, or take another name" in outcome.err

    options = (
        "--inactive",
        "--workers",
        "1",
        "--guarantee",
        "exactly-once",
        "--state",
        "state",
        "--json",
        "--no-check",
    )
    outcome = aiostorm("submit", "--code", str(folder), "jobs.sums:make", "--name", "again", *options)
    assert outcome.json["state"] == "INACTIVE"
    assert outcome.json["config"] == {
        "topology.guarantee": "exactly-once",
        "topology.state.dir": str(Path("state").absolute()),
    }
    outcome = aiostorm("submit", "--code", str(folder), "jobs.sums:make", "third", "--wait", "0.5")
    assert outcome.code == 1
    assert "'third' does not run after 0.5 s: 2 slots are needed, and 0 are free" in outcome.err
    for name in ("sums", "again", "third"):
        outcome = aiostorm("kill", name)
        assert (outcome.code, outcome.out) == (0, f"{name} has ended\n"), outcome.err
    assert aiostorm("list", "--json").json == {"topologies": []}


def test_what_cannot_be_submitted(aiostorm: Command, store: Store, tmp_path: Path) -> None:
    folder = code(tmp_path / "in")
    given = ("submit", "--code", str(folder))
    for arguments, match in (
        (("jobs.smus:make",), "there is no module jobs.smus; did you mean jobs.sums?"),
        (("jobs.sums:mkae",), "has no attribute 'mkae'; did you mean make?"),
        (("jobs.sums:make", "a", "b"), "cannot be called like that"),
        (("jobs.sums:make", "-c", "topology.workers=-1"), "topology.workers"),
        (("jobs.sums:make", "--no-check"), "needs a name"),
        (("jobs/sums.py:make",), "submit its folder as the code"),
        (("jobs.sums:make", "--name", "a b"), "a topology's name is"),
        (("jobs.sums:make", "--workers", "1001"), "1 to 1,000 workers"),
    ):
        outcome = aiostorm(*given, *arguments)
        assert (outcome.code, outcome.out) == (2, ""), outcome.err
        assert match in outcome.err
    (tmp_path / "no.zip").write_text("no zip")
    outcome = aiostorm("submit", "--code", str(tmp_path / "no.zip"), "jobs.sums:make")
    assert outcome.code == 2
    assert "no.zip is no zip and no wheel" in outcome.err
    assert aiostorm("list", "--json").json == {"topologies": []}


def test_a_submission_waits_for_a_cluster_that_starts(home: Home, start: Callable[..., Process]) -> None:
    process = start("submit", "jobs:topology", "--name", "x", "--no-check")
    process.until_err("is no cluster yet: start its daemons")
    made = Store(home)  # as nimbus makes it, one after the other
    made.make()
    made.lead()
    process.until_err("x is submitted; waits until it runs")
    assert made.topology("x") is not None
    process.kill()
    made.close()


def test_files_come_along_beside_the_modules(aiostorm: Command, store: Store, tmp_path: Path) -> None:
    store.lead()
    (tmp_path / "prices.csv").write_text("eur")
    text = "from jobs import sums\ntopology = sums.make(open(__file__.replace('one.py', 'prices.csv')).read())"
    (tmp_path / "one.py").write_text(text)
    files = ("--file", str(tmp_path / "one.py"), "--file", str(tmp_path / "prices.csv"))
    given = ("submit", "--code", str(code(tmp_path / "in")), *files, "one:topology", "--wait", "0")
    assert aiostorm(*given).out == "eur is submitted\n"
    assert aiostorm(*given, *files[:2], "--name", "x").code == 2, "it is there twice"
    outcome = aiostorm("submit", *files[2:], "one:topology", "--wait", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no module one" in outcome.err, "what is not in the code is not found by chance"
    assert aiostorm("submit", "--file", str(tmp_path), "one:topology").code == 2


def test_interrupting_a_kill_leaves_it_ending(store: Store, start: Callable[..., Process]) -> None:
    filled(store)
    store.lead()
    process = start("kill", "words")
    process.until_err("words is ending; Ctrl-C leaves it to that")
    found = store.topology("words")
    assert found is not None
    assert found.wanted == "KILLED"
    process.send(signal.SIGINT)
    outcome = process.end()
    assert outcome.code == 130
    assert "words goes on ending; `aiostorm list` shows it" in outcome.err
    assert "Traceback" not in outcome.err

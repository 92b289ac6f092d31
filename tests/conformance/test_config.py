"""Configuration: which value holds, and what is no value."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from aiostorm import BasicBolt, Config, ConfigError, Fields, LocalCluster, TopologyBuilder, TopologyError, Tuple
from aiostorm.testing import FeederSpout, Recorder, complete_topology, track_topology

from .parts import Acks, Identity, Words, straight
from .scenario import scenario


class ConfBolt(BasicBolt):
    """Emits each key that comes, with its value as this component sees it. Storm: TestConfBolt."""

    outputs = Fields("conf", "value")

    def __init__(self, config: Any = None) -> None:
        self.config = config or {}  # type: ignore[misc]

    def prepare(self, context: Any) -> None:
        self.context = context

    def execute(self, tup: Tuple, collector: Any) -> None:
        collector.emit((tup[0], self.context.config.get(tup[0])))


@scenario(
    "A component's own settings; the settings of its declarer win",
    "TopologyIntegrationTest#testComponentSpecificConfig",
    "A setting of the whole topology (max.task.parallelism) is refused for one component, with all other mistakes",
)
async def test_component_specific_config() -> None:
    builder = TopologyBuilder()
    builder.set_spout("1", Words)
    own = {"fake.config": 123, "topology.max.spout.pending": 30, "topology.debug": True}
    bolt = builder.set_bolt("2", ConfBolt(own)).shuffle_grouping("1")
    bolt.set_config({"fake.config2": 987, "topology.debug": False})
    keys = [*own, "fake.config2", "topology.max.task.parallelism", "theirs"]
    config = {"topology.max.task.parallelism": 2, "theirs": "all", "topology.max.spout.pending": 5}
    result = await complete_topology(builder.create_topology(), {"1": keys}, config)
    assert dict(result["2"]) == {
        "fake.config": 123,
        "fake.config2": 987,
        "topology.max.spout.pending": 30,
        "topology.debug": False,
        "topology.max.task.parallelism": 2,
        "theirs": "all",
    }
    bolt.set_config({"topology.max.task.parallelism": 2})
    with pytest.raises(TopologyError, match=r"topology\.max\.task\.parallelism is a setting of the whole topology"):
        builder.create_topology()


@scenario(
    "The topology's name and timeout, as a component sees them",
    "clojure_test (0.10)#test-component-specific-config-clojure",
    "The message timeout is that of the topology; in Storm it is the longest of all components",
)
async def test_what_a_component_sees() -> None:
    class Sees(ConfBolt):
        outputs = Fields("conf", "value", "topology")

        def execute(self, tup: Tuple, collector: Any) -> None:
            collector.emit((tup[0], self.context.config.get(tup[0]), self.context.topology))

    builder = TopologyBuilder()
    builder.set_spout("1", Words)
    builder.set_bolt("2", Sees({"fake.config": 1, "max_spout_pending": 10}), max_spout_pending=3).shuffle_grouping("1")
    result = await complete_topology(
        builder.create_topology(),
        {"1": ["fake.config", "topology.max.spout.pending", "message_timeout_s"]},
        {"topology.message.timeout.secs": 40},
        name="test123",
    )
    assert result["2"] == [
        ("fake.config", 1, "test123"),
        ("topology.max.spout.pending", 3, "test123"),
        ("message_timeout_s", 40.0, "test123"),
    ]
    builder.set_spout("other", Words, message_timeout_s=40)
    with pytest.raises(TopologyError, match="message_timeout_s is a setting of the whole topology"):
        builder.create_topology()


@scenario(
    "Precedence: defaults, cluster, topology, submit, component",
    "TopologyIntegrationTest#testKryoDecoratorsConfig",
    "Lists are not joined: the value of the highest layer that sets the key is used",
)
async def test_precedence() -> None:
    def config(*layers: str, name: str) -> dict[str, Any]:
        return {f"my.{layer}": name for layer in layers} | {"my.list": [name]}

    builder = TopologyBuilder()
    builder.set_spout("1", feeder := FeederSpout("conf"))
    own = config("component", name="component") | {"max_spout_pending": 4}
    builder.set_bolt("2", ConfBolt(own)).shuffle_grouping("1")
    builder.set_bolt("3", ConfBolt()).shuffle_grouping("1")
    builder.set_bolt("out", seen := Recorder()).shuffle_grouping("2").shuffle_grouping("3")
    layers = "cluster", "topology", "submit", "component"
    topology = builder.create_topology(config=Config(**config(*layers[1:], name="topology"), max_spout_pending=2))
    base = Config(**config(*layers, name="cluster"), max_spout_pending=1, turn_max_tuples=7)
    async with LocalCluster(base) as cluster:
        submitted = config(*layers[2:], name="submit") | {"max_spout_pending": 3}
        tracked = await track_topology(cluster, topology, submitted)
        await feeder.feed_all(
            [*(f"my.{layer}" for layer in layers), "my.list", "max_spout_pending", "turn_max_tuples", "spout_wait_ms"]
        )
        await tracked.wait_all_acked()
    values = {
        component: {tup["conf"]: tup["value"] for tup in seen.tuples if tup.source_component == component}
        for component in ("2", "3")
    }
    shared = {"my.cluster": "cluster", "my.topology": "topology", "turn_max_tuples": 7, "spout_wait_ms": 1.0}
    assert values["3"] == shared | {
        "my.submit": "submit",
        "my.component": "submit",
        "my.list": ["submit"],
        "max_spout_pending": 3,
    }
    assert values["2"] == shared | {
        "my.submit": "submit",
        "my.component": "component",
        "my.list": ["component"],
        "max_spout_pending": 4,
    }


@scenario(
    "topology.debug for one component logs that component",
    "NimbusClojurePortTest#testDebugOnComponent",
    "It is set at submit; in Storm it is switched while the topology runs",
)
async def test_debug_of_one_component(caplog: pytest.LogCaptureFixture) -> None:
    builder = TopologyBuilder()
    builder.set_spout("1", Words)
    builder.set_bolt("loud", Identity).shuffle_grouping("1").set_config({"topology.debug": True})
    builder.set_bolt("quiet", Identity).shuffle_grouping("1")
    with caplog.at_level(logging.INFO, logger="aiostorm.debug"):
        await complete_topology(builder.create_topology(), {"1": ["a"]})
    assert any("executes" in record.getMessage() for record in caplog.records)
    assert all(record.getMessage().startswith("complete: loud[") for record in caplog.records)


# -- values ------------------------------------------------------------------------------------------------------------


@scenario("The number of workers is a whole number", "TestConfigValidate#testTopologyWorkersIsInteger")
def test_workers() -> None:
    assert Config(**{"topology.workers": 42}).workers == 42
    with pytest.raises(ConfigError, match=r"topology\.workers"):
        Config(**{"topology.workers": 3.14159})


@scenario(
    "A number that must be positive",
    "TestConfigValidate#testPositiveNumberValidator",
    'Text that is a number is accepted ("43"), since it may come from the environment or a command line. '
    "None means not set",
)
def test_positive_numbers() -> None:
    for value in (1.0, 0.01, 1, 2_147_483_647, 42, "43"):
        assert Config(message_timeout_s=value).message_timeout_s == float(value)
    assert Config(message_timeout_s=None).message_timeout_s == 30.0  # type: ignore[arg-type]
    for bad in (-1.0, -1, -0.01, 0.0, 0, "string", float("nan"), True):
        with pytest.raises(ConfigError, match="message_timeout_s"):
            Config(message_timeout_s=bad)


@scenario(
    "A number that must be whole",
    "TestConfigValidate#testIntegerValidator",
    "There is no upper bound, as Python's numbers have none",
)
def test_whole_numbers() -> None:
    for value in (None, 1000, 2_147_483_647, 2_147_483_648):
        assert Config(max_spout_pending=value).max_spout_pending == value
    with pytest.raises(ConfigError, match="max_spout_pending"):
        Config(max_spout_pending=1.34)  # type: ignore[arg-type]


@scenario(
    "Keys of the user's own, with any value",
    "TestConfigValidate#testNonValidConfigRandomObject",
    "Any object is allowed in one process; in Storm it must be JSON",
)
def test_own_keys() -> None:
    own = {"q": "asdf", "aaa": 123, "bbb": 2**40, "eee": [1, 2.0, None, ["asdf", 3]], "object": object()}
    assert dict(Config(**{"topology.debug": True}, **own).user) == own


@scenario(
    "A list may be given as text",
    "ConfigUtilsTest#getValueAsList_spaceSeparatedString",
    "Separated by commas, not spaces",
)
def test_lists() -> None:
    for given in ("1, 2", [1, 2], ("1", "2")):
        assert Config(restart_backoff_s=given).restart_backoff_s == (1.0, 2.0)  # type: ignore[arg-type]
    assert Config(restart_backoff_s=5).restart_backoff_s == (5.0,)  # type: ignore[arg-type]
    assert Config(auto_task_hooks="a:B, c:D").auto_task_hooks == ("a:B", "c:D")  # type: ignore[arg-type]


@scenario(
    "A storm.yaml is read",
    "TestConfigValidate#defaultYamlTest",
    "Keys without a meaning here are listed as ignored. An unknown topology key is an error; in Storm it "
    "is the user's own",
)
def test_a_storm_yaml(tmp_path: Path) -> None:
    file = tmp_path / "storm.yaml"
    file.write_text(
        "storm.zookeeper.servers: [localhost]\n"
        "nimbus.seeds: [localhost]\n"
        "worker.childopts: -Xmx768m\n"
        "topology.workers: 4\n"
        "topology.acker.executors: null\n"
        "topology.max.spout.pending: 500\n"
        "topology.message.timeout.secs: 60\n"
        "topology.executor.receive.buffer.size: 32768\n"
        "topology.spout.wait.strategy: org.apache.storm.policy.WaitStrategyProgressive\n"
        "topology.kryo.register: [a.Serializer]\n"
        "topology.disable.loadaware.messaging: false\n"
        "my.own: 1\n",
        encoding="utf-8",
    )
    config = Config.from_yaml(file)
    assert (config.workers, config.acker_executors, config.max_spout_pending) == (4, None, 500)
    assert (config.message_timeout_s, config.mailbox_capacity_tuples) == (60, 32768)
    assert dict(config.user) == {"my.own": 1}
    assert {"nimbus.seeds", "topology.kryo.register", "worker.childopts"} <= set(config.ignored)
    file.write_text("topology.max.spout.pnding: 500\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"did you mean.*topology\.max\.spout\.pending"):
        Config.from_yaml(file)


@scenario(
    "A bad setting is refused at submit, and nothing runs",
    "NimbusClojurePortTest#testValidateTopoConfigOnSubmit",
)
async def test_config_is_checked_on_submit(local_cluster: LocalCluster) -> None:
    topology = straight(FeederSpout("n"), acks=Acks)
    with pytest.raises(ConfigError, match=r"topology\.max\.spout\.pending"):
        await local_cluster.submit("test", topology, {"topology.max.spout.pending": "many"})
    assert not local_cluster.topologies
    await local_cluster.submit("test", topology)

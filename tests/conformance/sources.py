"""The files that the scenarios are from: a short name → repository and path.

Names of Storm 2 (its master branch) are without a number; "0.10" is what Storm had in Clojure before. "code": not a
test, but the class itself: its behaviour is relied on, and their suites have no test of it.
"""

from __future__ import annotations

from typing import Final

_CLIENT = "apache/storm:storm-client/test/jvm/org/apache/storm"
_CLIENT_CODE = "apache/storm:storm-client/src/jvm/org/apache/storm"
_CORE = "apache/storm:storm-core/test/jvm/org/apache/storm"
_SERVER = "apache/storm:storm-server/src/test/java/org/apache/storm"
_CLOJURE = "apache/storm:storm-core/test/clj/backtype/storm"
_STARTER = "apache/storm:examples/storm-starter/test/jvm/org/apache/storm/starter"
_JSTORM = "alibaba/jstorm:jstorm-core/src/test/java/com/alibaba/jstorm"
_JSTORM_UNIT = "alibaba/jstorm:example/sequence-split-merge/src/test/java/com/jstorm/example/unittests"

SOURCES: Final = {
    "BalancedTargetSelectorTest": f"{_CLIENT}/grouping/partialKeyGrouping/BalancedTargetSelectorTest.java",
    "BasicBoltExecutor (code)": f"{_CLIENT_CODE}/topology/BasicBoltExecutor.java",
    "clojure_test (0.10)": f"{_CLOJURE}/clojure_test.clj",
    "ConfigUtilsTest": f"{_CLIENT}/utils/ConfigUtilsTest.java",
    "DemoTest": "apache/storm:integration-test/src/test/java/org/apache/storm/st/DemoTest.java",
    "FieldsTest": f"{_CLIENT}/tuple/FieldsTest.java",
    "GroupingIntegrationTest": f"{_SERVER}/grouping/GroupingIntegrationTest.java",
    "integration_test (0.10)": f"{_CLOJURE}/integration_test.clj",
    "IntermediateRankingsBoltTest": f"{_STARTER}/bolt/IntermediateRankingsBoltTest.java",
    "JCQueueBackpressureTest": f"{_CLIENT}/utils/JCQueueBackpressureTest.java",
    "JCQueueTest": f"{_CLIENT}/utils/JCQueueTest.java",
    "JStorm DisruptorTest": f"{_JSTORM}/util/queue/DisruptorTest.java",
    "JStorm FastWordCountTest": f"{_JSTORM_UNIT}/performance/FastWordCountTest.java",
    "JStorm InOrderDeliveryTest": f"{_JSTORM_UNIT}/order/InOrderDeliveryTest.java",
    "JStorm SequenceTopologyTest": f"{_JSTORM_UNIT}/sequence/SequenceTopologyTest.java",
    "JStorm SimpleBatchTopologyTest": f"{_JSTORM_UNIT}/batch/SimpleBatchTopologyTest.java",
    "JStorm SingleJoinTest": f"{_JSTORM}/topology/SingleJoinTest.java",
    "JStorm TickTupleTest": f"{_JSTORM_UNIT}/tick/TickTupleTest.java",
    "LoadAwareShuffleGroupingTest": f"{_CLIENT}/grouping/LoadAwareShuffleGroupingTest.java",
    "MessagingTest": f"{_SERVER}/MessagingTest.java",
    "metrics_test (0.10)": f"{_CLOJURE}/metrics_test.clj",
    "NimbusClojurePortTest": f"{_SERVER}/daemon/nimbus/NimbusClojurePortTest.java",
    "PartialKeyGroupingTest": f"{_CLIENT}/grouping/partialKeyGrouping/PartialKeyGroupingTest.java",
    "RandomTwoTaskAssignmentCreatorTest": (
        f"{_CLIENT}/grouping/partialKeyGrouping/RandomTwoTaskAssignmentCreatorTest.java"
    ),
    "ReportErrorTest": f"{_CLIENT}/executor/error/ReportErrorTest.java",
    "RollingCountBoltTest": f"{_STARTER}/bolt/RollingCountBoltTest.java",
    "ShuffleGroupingTest": f"{_CLIENT}/grouping/ShuffleGroupingTest.java",
    "SpoutExecutorTest": f"{_CLIENT}/executor/SpoutExecutorTest.java",
    "SpoutOutputCollectorImpl (code)": f"{_CLIENT_CODE}/executor/spout/SpoutOutputCollectorImpl.java",
    "Task (code)": f"{_CLIENT_CODE}/daemon/Task.java",
    "TestConfigValidate": f"{_CLIENT}/TestConfigValidate.java",
    "testing4j_test (0.10)": f"{_CLOJURE}/testing4j_test.clj",
    "TestingTest": f"{_CORE}/integration/TestingTest.java",
    "TestingTest (server)": f"{_SERVER}/TestingTest.java",
    "TestStormSubmitter": f"{_CLIENT}/TestStormSubmitter.java",
    "tick_tuple_test (0.10)": f"{_CLOJURE}/tick_tuple_test.clj",
    "TickTupleTest": f"{_SERVER}/TickTupleTest.java",
    "TimeTest": f"{_CLIENT}/utils/TimeTest.java",
    "TopologyBuilderTest": f"{_CLIENT}/topology/TopologyBuilderTest.java",
    "TopologyIntegrationTest": f"{_CORE}/integration/TopologyIntegrationTest.java",
    "tuple_test (0.10)": f"{_CLOJURE}/tuple_test.clj",
    "TupleImpl (code)": f"{_CLIENT_CODE}/tuple/TupleImpl.java",
    "UtilsTest": f"{_CLIENT}/utils/UtilsTest.java",
    "ValuesTest": f"{_CLIENT}/tuple/ValuesTest.java",
    "WaitStrategyProgressive (code)": f"{_CLIENT_CODE}/policy/WaitStrategyProgressive.java",
}

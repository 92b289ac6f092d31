"""Configuration keys: those of Storm and JStorm that have no effect here, and the nearest one to a misspelt key.

Existing YAML files have many keys about JVMs, Kryo, Netty, Disruptor or schedulers that do not exist here. They are
accepted, so that such a file works, and reported as ignored, so that users do not expect an effect. A `topology.*` key
that neither system has is a mistake.

From Storm's Config.java, DaemonConfig.java and defaults.yaml (2.8 and later, and keys of older versions), and JStorm's
Config.java, ConfigExtension.java and defaults.yaml (2.1 to 2.4).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

_TOPOLOGY = """
    accurate.metric acker.cpu.pcore.percent acker.resources.offheap.memory.mb acker.resources.onheap.memory.mb
    alimonitor.metrics.post alimonitor.task.metrics.name alimonitor.topo.metrics.name
    alimonitor.user.metrics.name alimonitor.worker.metrics.name auto-credentials
    backpressure.check.millis backpressure.wait.park.microsec
    backpressure.wait.progressive.level1.count backpressure.wait.progressive.level2.count
    backpressure.wait.progressive.level3.sleep.millis backpressure.wait.strategy
    batch.flush.interval.millis blobstore.map bolt.parallelism
    bolt.wait.park.microsec bolt.wait.progressive.level1.count bolt.wait.progressive.level2.count
    bolt.wait.progressive.level3.sleep.millis bolt.wait.strategy bolts.late.tuple.stream
    bolts.message.id.field.name bolts.outgoing.overflow.buffer.enable bolts.tuple.timestamp.field.name
    bolts.window.length.count
    bolts.window.length.duration.ms bolts.window.sliding.interval.count
    bolts.window.sliding.interval.duration.ms builtin.metrics.bucket.size.secs classpath classpath.beginning
    component.cpu.pcore.percent component.resources.map component.resources.offheap.memory.mb
    component.resources.onheap.memory.mb ctrl.buffer.size debug.metric.names debug.recv.tuple debug.sample.rate
    disable.loadaware disable.loadaware.messaging disabled.metric.names disruptor.batch.size
    disruptor.batch.timeout.millis disruptor.wait.strategy disruptor.wait.timeout enable.classloader
    enable.metric.debug enable.metrics enable.send.iconnection.metrics enable.stream.metrics
    enable.v2.metrics.tick enabled.metric.names environment error.throttle.interval.secs event.logger.register
    eventlogger.executors eventlogger.max.retained.files eventlogger.rotation.size.mb executor.overflow.limit
    executor.send.buffer.size fall.back.on.java.serialization groups histogram.size hot.deploy.enable id
    kryo.decorators kryo.factory kryo.register kryo.register.required kv.store.type
    localityaware.higher.bound localityaware.lower.bound logging.config logging.sensitivity master.single.worker
    master.thread.pool.size master.user.defined.stream.class master.worker.memory.size
    max.error.report.per.interval max.pending.metric.num max.replication.wait.time.sec
    max.worker.num.for.netty.metrics metric.sample.rate metrics.consumer.cpu.pcore.percent
    metrics.consumer.register metrics.consumer.resources.offheap.memory.mb
    metrics.consumer.resources.onheap.memory.mb metrics.reporters min.replication.count multi.count.metrics
    multilang.log.handler multilang.serializer name oci.image optimize performance.metrics priority
    producer.batch.dynamic producer.batch.size ras.acker.executors.per.worker ras.constraint.max.state.search
    ras.constraint.max.time.secs ras.constraints ras.one.component.per.worker ras.one.executor.per.worker
    ras.order.executors.by.proximity.needs readonly.groups readonly.users receiver.buffer.size
    scheduler.favored.nodes scheduler.strategy scheduler.unfavored.nodes serialized.message.size.metrics
    serializer.type shellbolt.max.pending skip.missing.kryo.registrations spout.max.batch.size spout.parallelism
    spout.recvq.skips spout.wait.park.microsec spout.wait.progressive.level1.count
    spout.wait.progressive.level2.count spout.wait.progressive.level3.sleep.millis spout.wait.strategy
    spread.components state.kryo.register state.provider state.provider.config
    state.synchronization.timeout.secs state.ttl.time.sec stats.ewma.enable stats.ewma.smoothing.factor
    stats.sample.rate submitter.principal submitter.user subprocess.timeout.secs task.error.report.interval
    task.heartbeat.send.number tasks tick.tuple.freq.ms timer.update.interval
    transaction.state.operator.class transactional.id transfer.batch.size transfer.buffer.size
    trident.batch.emit.interval.millis trident.windowing.cache.tuple.limit tuple.compression.enable
    tuple.compression.max.decompressed.bytes tuple.compression.threshold tuple.serializer upgrade
    upgrade.component upgrade.ttl upgrade.worker.num upgrade.workers upstream.feedback.enable
    upstream.feedback.freq.secs users v2.metrics.tick.interval.seconds version worker.childopts
    worker.gc.childopts worker.logwriter.childopts worker.max.heap.size.mb worker.metrics
    worker.nimbus.thrift.client.use.tls worker.receiver.thread.count worker.shared.thread.pool.size
    worker.timeout.secs
"""

_OTHER = """
    blacklist.scheduler.assume.supervisor.bad.based.on.bad.slot
    blacklist.scheduler.enable.send.assignment.failures blacklist.scheduler.reporter
    blacklist.scheduler.resume.time.secs blacklist.scheduler.strategy blacklist.scheduler.tolerance.count
    blacklist.scheduler.tolerance.time.secs blobstore.cleanup.enable blobstore.dir blobstore.hdfs.defaultFS
    blobstore.hdfs.hostname blobstore.hdfs.keytab blobstore.hdfs.port blobstore.hdfs.principal
    cache.timeout.list change.log.level.config change.log.level.timestamp classloader.debug
    client.blobstore.class cluster.conf.sync.enabled cluster.max.concurrent.upload.metric.num cluster.name
    container.heartbeat.frequence container.heartbeat.timeout.seconds container.nimbus.heartbeat
    container.supervisor.heartbeat cpu.slots.per.task default.cache.timeout dev.zookeeper.path
    enable.key.range.field.group executor.metrics.frequency.secs isolation.scheduler.machines java.library.path
    java.sandbox.enable key.range.num local.supervisor.id local.worker.id local.worker.port log.page.size
    logs.groups logs.users max.blocks.per.log.search max.match.per.log.search max.pending.batch.size
    memory.slots.per.task multitenant.scheduler.user.pools netty.client.flow.ctrl.cache.size
    netty.client.flow.ctrl.wait.time.ms num.stat.buckets output.worker.dump process.launcher.childopts
    process.launcher.enable process.launcher.sleep.seconds resource.aware.scheduler.constraint.max.state.search
    resource.aware.scheduler.eviction.strategy resource.aware.scheduler.max.topology.scheduling.attempts
    resource.aware.scheduler.priority.strategy resource.aware.scheduler.user.pools rocksdb.options.factory.class
    scheduler.config.cache.expiration.secs scheduler.config.loader.artifactory.base.directory
    scheduler.config.loader.polltime.secs scheduler.config.loader.timeout.secs scheduler.config.loader.uri
    scheduler.display.resource scheduling.timeout.seconds.per.topology shuffle.enable.inter.path
    shuffle.inter.load.mark spout.delay.run spout.pending.full.sleep spout.single.thread task.batch.tuple
    task.cleanup.timeout.sec task.credentials.poll.secs task.deserialize.thread.num
    task.heartbeat.frequency.secs task.msg.batch.flush.interval.millis task.msg.batch.size task.on.differ.node
    task.refresh.poll.secs task.serialize.thread.num transaction.batch.snapshot.timeout
    transaction.cache.batch.flush.size transaction.cache.block.size transaction.exactly.cache.type
    transaction.exactly.once.mode transaction.max.cache.block.num transaction.max.pending.batch
    transaction.schedule.batch.delay.ms transaction.task.state.init.operator.map transaction.task.sys.state.init
    transaction.task.user.state.init transaction.topology transaction.topology.reset
    transactional.zookeeper.port transactional.zookeeper.root transactional.zookeeper.servers use.old.assignment
    use.userdefine.assignment user.defined.log4j.conf user.defined.logback.conf
"""

IGNORED_PREFIXES = (
    "disruptor.", "drpc.", "jstorm.", "logviewer.", "nimbus.", "pacemaker.", "storm.", "supervisor.",
    "ui.", "worker.", "zmq.",
)  # fmt: skip
"""A key with one of these prefixes is a setting of a daemon or of a part that does not exist here."""

IGNORED_KEYS = frozenset(["topology." + key for key in _TOPOLOGY.split()] + _OTHER.split())


PER_COMPONENT = frozenset(
    {
        "acker_tree_max_messages",
        "auto_task_hooks",
        "debug",
        "mailbox_capacity_tuples",
        "mailbox_high_mark",
        "mailbox_low_mark",
        "max_retries",
        "max_spout_pending",
        "restart_backoff_s",
        "restart_max",
        "restart_period_s",
        "routing_cache_keys",
        "spout_wait_max_ms",
        "spout_wait_ms",
        "stall_report_s",
        "tick_tuple_freq_s",
        "trace_context",
        "turn_max_ms",
        "turn_max_tuples",
        "watermark_idle_timeout_ms",
        "watermark_interval_ms",
        "watermark_lag_ms",
        "watermark_max_advance_ms",
        "window_max_states",
    }
)
"""The settings that a component may override."""

UPDATABLE = frozenset(
    {
        "backpressure_check_interval_ms",
        "backpressure_enable",
        "backpressure_high_mark",
        "backpressure_low_mark",
        "backpressure_sample_number",
        "backpressure_sample_rate",
        "backpressure_trigger_ratio",
        "debug",
        "graceful_stop_s",
        "mailbox_target_ms",
        "max_spout_pending",
        "message_timeout_s",
        "snapshot_keep",
        "stall_report_s",
        "state_quota_mb",
        "tick_tuple_freq_s",
    }
)
"""The settings that can be changed while a topology runs (docs/storm.md says why the others cannot)."""


def is_ignored(key: str) -> bool:
    """Is it a key of Storm or JStorm that has no effect here?"""
    return key in IGNORED_KEYS or key.startswith(IGNORED_PREFIXES)


def plain(name: str) -> str:
    """A name without separators and case: `TOPOLOGY__MAX_SPOUT_PENDING` equals `topology.max.spout.pending`."""
    return "".join(letter for letter in name.lower() if letter.isalnum())


def nearest(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The candidate most similar to a name, or None if none is. Separators and `topology` do not count."""

    def stem(key: str) -> str:
        return plain(key).removeprefix("topology")

    stems: Mapping[str, str] = {stem(candidate): candidate for candidate in candidates}
    close = difflib.get_close_matches(stem(name), stems, n=1, cutoff=cutoff)
    return stems[close[0]] if close else None

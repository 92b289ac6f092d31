"""Config: the settings of a topology, by field name or by Storm's key, and the source of each value.

1. A setting has one value and one source: "default", "keyword", "file storm.yaml", "env AIOSTORM_…" or "-c".
2. Layers, lowest first: defaults, the topology's own config, file, environment, overrides. Only a setting that a layer
   contains explicitly overrides the layers below.
3. An unknown `topology.*` key is an error that names the nearest known one. Keys of Storm or JStorm that have no use
   here are accepted and listed in `ignored`. Every other key belongs to the user: `config.get("my.key")`.
4. All mistakes of all layers are reported together.
5. A Config never changes; `merge` makes a new one. None for a setting that cannot be None means "not set", as in Storm.

Storm: org.apache.storm.Config, defaults.yaml. JStorm: ConfigExtension. There a misspelt key silently becomes a key of
the user (depart).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic_core import ErrorDetails

from ..runtime import LIVENESS, LIVENESS_ORDER, Given, Order, order_problems
from .config_keys import PER_COMPONENT, UPDATABLE, is_ignored
from .config_layers import Layer, Resolved, env_layer, file_layer, override_layer, resolve
from .errors import ConfigError
from .liveness_config import FIXED, LivenessConfig, no_flag
from .liveness_config import setting as _setting
from .snapshot_config import SnapshotConfig, guarantee_conflicts

if TYPE_CHECKING:
    from .values import Setting

_RESOLVED = "__resolved__"


def _listed(value: object) -> object:
    """A list may be given as one item, or as text with commas, which fits on a command line."""
    if isinstance(value, str):
        return [item for part in value.split(",") if (item := part.strip())]
    return [no_flag(value)] if isinstance(value, int | float) else value


def _with_opentelemetry(wanted: bool) -> bool:
    if wanted and (find_spec("opentelemetry") is None or find_spec("opentelemetry.trace") is None):
        raise ValueError('OpenTelemetry is not installed: pip install "aiostorm[otel]"')
    return wanted


Count = Annotated[int, BeforeValidator(no_flag)]
Number = Annotated[float, BeforeValidator(no_flag)]
Delay = Annotated[float, Field(ge=0), BeforeValidator(no_flag)]


class Config(LivenessConfig, SnapshotConfig):
    """Settings of a topology: `Config(max_spout_pending=5000)`, `Config(**{"topology.max.spout.pending": 5000})`.

    Raises ConfigError for values that are not allowed and for unknown `topology.*` keys.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_spout_pending: Count | None = _setting(
        None,
        "Messages that a spout task may have pending before next_tuple is no longer called; None: no limit.",
        "topology.max.spout.pending",
        ge=1,
    )
    message_timeout_s: Number = _setting(
        30.0,
        "Seconds that a tuple tree may take from its emit until it is complete; after that its messages fail.",
        "topology.message.timeout.secs",
        gt=0,
    )
    enable_message_timeouts: bool = _setting(
        True, "Whether tuple trees time out at all.", "topology.enable.message.timeouts"
    )
    acker_executors: Count | None = _setting(
        None,
        "Acker tasks; None: one per worker; 0: messages are acked as soon as they are emitted.",
        "topology.acker.executors",
        "topology.ackers",
        ge=0,
    )
    acker_tree_max_messages: Count = _setting(
        256,
        "Messages of one turn that may share a tuple tree; 1: one message a tree, as in Storm.",
        "topology.acker.tree.max.messages",
        ge=1,
    )
    max_retries: Count | None = _setting(
        None,
        "Replays of a failed message by the framework before it is a dead letter; None: the spout's `fail` decides.",
        "topology.max.retries",
        ge=0,
    )
    workers: Count = _setting(1, "Worker processes.", "topology.workers", ge=1)
    mailbox_capacity_tuples: Count = _setting(
        1024,
        "Largest number of tuples in a task's mailbox.",
        "topology.mailbox.capacity",
        "topology.executor.receive.buffer.size",
        ge=1,
    )
    mailbox_target_ms: Number = _setting(
        200.0,
        "Milliseconds of work in a bolt task's mailbox: fewer tuples if each takes long; 0: up to its capacity.",
        "topology.mailbox.target.ms",
        ge=0,
        le=86_400_000,
    )
    mailbox_high_mark: Number = _setting(
        0.8, "Share of a mailbox above which senders must wait.", "topology.mailbox.water.mark.high", gt=0, le=1
    )
    mailbox_low_mark: Number = _setting(
        0.2, "Share of a mailbox at which waiting senders may continue.", "topology.mailbox.water.mark.low", ge=0, lt=1
    )
    turn_max_tuples: Count = _setting(
        256, "Largest number of tuples that a task executes in one turn.", "topology.turn.max.tuples", ge=1
    )
    turn_max_ms: Number = _setting(
        10.0, "Milliseconds after which a task lets others run.", "topology.turn.max.ms", gt=0
    )
    spout_wait_ms: Number = _setting(
        1.0,
        "Milliseconds to wait after a next_tuple that emitted nothing; doubled each time up to spout_wait_max_ms.",
        "topology.sleep.spout.wait.strategy.time.ms",
        ge=0,
    )
    spout_wait_max_ms: Number = _setting(
        100.0,
        "Longest wait of a spout between two calls of next_tuple, in milliseconds.",
        "topology.spout.wait.max.ms",
        ge=0,
    )
    tick_tuple_freq_s: Number | None = _setting(
        None, "Seconds between tick tuples; None: no ticks.", "topology.tick.tuple.freq.secs", gt=0
    )
    auto_task_hooks: Annotated[tuple[str, ...], BeforeValidator(_listed)] = _setting(
        (), "Task hooks of every task, as import strings (package.module:Class).", "topology.auto.task.hooks"
    )
    testing_always_try_serialize: bool = _setting(
        False,
        "Whether rows are packed and unpacked in one process too, as between workers; on in the testing kit.",
        "topology.testing.always.try.serialize",
    )
    debug: bool = _setting(False, "Whether every emit, ack and fail is logged.", "topology.debug")
    stall_report_s: Number = _setting(
        LIVENESS.stall_report_s,
        "Seconds that user code may block the event loop before it is reported with its line; 0: never.",
        "topology.stall.report.secs",
        ge=0,
    )
    trace_one_in: Count = _setting(
        16_384,
        "One tuple tree in so many (a power of two) is traced from its spout to its ack; 0: only on demand.",
        "topology.trace.one.in",
        ge=0,
        le=4_194_304,
    )
    trace_context: Annotated[bool, AfterValidator(_with_opentelemetry)] = _setting(
        False,
        "Whether the span of OpenTelemetry in which a spout emits is the parent of the tuple tree's spans.",
        "topology.trace.context",
    )
    restart_max: Count = _setting(
        5,
        "Allowed restarts of a task within restart_period_s; with one more the topology fails.",
        "topology.restart.max",
        ge=0,
    )
    restart_period_s: Number = _setting(
        30.0, "Seconds over which restarts of a task are counted.", "topology.restart.period.secs", gt=0
    )
    restart_backoff_s: Annotated[tuple[Delay, ...], BeforeValidator(_listed)] = _setting(
        (0.0, 0.2, 1.0, 5.0),
        "Seconds to wait before the first, second, … restart of a task; the last one repeats.",
        "topology.restart.backoff.secs",
        min_length=1,
    )
    graceful_stop_s: Number = _setting(
        LIVENESS.graceful_stop_s,
        "Seconds that a stopping topology has to finish its accepted tuples.",
        "topology.graceful.stop.secs",
        ge=0,
    )
    max_task_parallelism: Count | None = _setting(
        None, "Largest number of tasks of a component; None: as declared.", "topology.max.task.parallelism", ge=1
    )
    rebalance_auto: bool = _setting(
        False, "Whether a cluster rebalances the topology when a node can take part.", "topology.rebalance.auto"
    )
    isolate_machines: Count = _setting(
        0,
        "Nodes of a cluster that the topology has for itself, where no other one runs; 0: it shares them.",
        "topology.isolate.machines",
        ge=0,
    )
    routing_cache_keys: Count = _setting(
        65_536, "Keys that a grouping by fields remembers, in each process.", "topology.routing.cache.keys", ge=1
    )
    watermark_lag_ms: Count = _setting(
        0,
        "Milliseconds that rows of windows by event time may be behind the latest one.",
        "topology.bolts.tuple.timestamp.max.lag.ms",
        ge=0,
        le=10**18,
    )
    watermark_interval_ms: Count = _setting(
        1000,
        "Milliseconds between two watermarks of an input task, and between two calls of a watermark generator.",
        "topology.bolts.watermark.event.interval.ms",
        ge=1,
    )
    watermark_max_advance_ms: Count = _setting(
        3_600_000,
        "Milliseconds by which one row may advance a watermark (limits the effect of a wrong clock); 0: no limit.",
        "topology.bolts.watermark.max.advance.ms",
        ge=0,
    )
    watermark_idle_timeout_ms: Count = _setting(
        60_000,
        "Milliseconds after which windows no longer wait for an input task that sends nothing; 0: they always wait.",
        "topology.bolts.watermark.idle.timeout.ms",
        ge=0,
    )
    window_max_states: Count = _setting(
        1_000_000,
        "Largest number of states (one per key and window) or kept rows of a task with windows; one more row fails.",
        "topology.bolts.window.max.states",
        ge=1,
    )
    backpressure_enable: bool = _setting(
        True, "Whether spouts are paced when a bolt cannot keep up.", "topology.backpressure.enable"
    )
    backpressure_high_mark: Number = _setting(
        0.8,
        "Share of a mailbox above which a task counts as blocked.",
        "topology.backpressure.water.mark.high",
        gt=0,
        le=1,
    )
    backpressure_low_mark: Number = _setting(
        0.05,
        "Share of a mailbox at or below which a task counts as relieved.",
        "topology.backpressure.water.mark.low",
        ge=0,
        lt=1,
    )
    backpressure_trigger_ratio: Number = _setting(
        0.1,
        "More than this share of a component's tasks must be blocked for it to trigger; 1: all.",
        "topology.backpressure.coordinator.trigger.ratio",
        gt=0,
        le=1,
    )
    backpressure_check_interval_ms: Number = _setting(
        1000.0, "Milliseconds between two samples of a mailbox.", "topology.backpressure.check.interval", ge=1
    )
    backpressure_sample_number: Count = _setting(
        4,
        "Samples of a mailbox for each verdict about it.",
        "topology.backpressure.trigger.sample.number",
        ge=1,
        le=1000,
    )
    backpressure_sample_rate: Number = _setting(
        0.75,
        "More than this share of the samples must be high (low) for a task to count as blocked (relieved); 1: all.",
        "topology.backpressure.trigger.sample.rate",
        gt=0,
        le=1,
    )

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)
    _extra: dict[str, Setting] = PrivateAttr(default_factory=dict)

    if not TYPE_CHECKING:  # type checkers use the constructor that pydantic derives from the fields

        def __init__(self, **data: Setting) -> None:
            resolved = data.pop(_RESOLVED, None) or _resolve([Layer.of(data, "keyword")])
            problems = resolved.problems
            try:
                super().__init__(**resolved.values)
            except ValidationError as error:
                problems = problems + [_problem(details, resolved) for details in error.errors(include_url=False)]
            else:
                problems = [*problems, *_order_problems(self, resolved), *guarantee_conflicts(self, resolved.written)]
            if problems:
                raise ConfigError(*problems)
            self._sources = resolved.sources
            self._extra = resolved.extra

    @classmethod
    def load(
        cls,
        file: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        overrides: Sequence[str] | Mapping[str, Setting] | None = None,
        base: Config | None = None,
    ) -> Config:
        """Put the layers together: `base` (the topology's own) < YAML `file` < environment < `overrides`.

        `env` None means the environment of this process. `overrides` are "KEY=VALUE" strings, their values read as
        YAML, or a mapping. Raises ConfigError with every mistake of every layer.
        """
        layers = [base._explicit()] if base is not None else []
        if file is not None:
            layers.append(file_layer(Path(file)))
        layers.append(env_layer(os.environ if env is None else env, field_keys()))
        layers.append(override_layer(overrides or {}))
        return _merged(layers)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> Config:
        """The settings of a YAML file. Raises ConfigError with file, line and column."""
        return _merged([file_layer(Path(path))])

    @classmethod
    def restored(cls, values: Mapping[str, Setting], sources: Mapping[str, str]) -> Config:
        """The configuration of another process: what was set, and the source of each. ConfigError."""
        return _merged([Layer(dict(values), {name: sources.get(name, "keyword") for name in values})])

    def merge(self, other: Config | Mapping[str, Setting] | None) -> Config:
        """This config with what `other` sets explicitly. Raises ConfigError."""
        if other is None:
            return self
        return _merged(
            [self._explicit(), other._explicit() if isinstance(other, Config) else Layer.of(other, "keyword")]
        )

    def updated(self, changes: Config | Mapping[str, Setting]) -> Config:
        """This config with `changes`, for a topology that runs. ConfigError also for what cannot be changed then."""
        layer = changes._explicit() if isinstance(changes, Config) else Layer.of(changes, "update")
        merged = _merged([self._explicit(), layer])
        fields = field_keys()
        fixed = [
            f"{key} cannot be changed while a topology runs; what can: {', '.join(sorted(UPDATABLE))}"
            for key in sorted(layer.values)
            if fields.get(key) not in UPDATABLE and merged.get(key) != self.get(key)
        ]
        if fixed:
            raise ConfigError(*fixed)
        return merged

    def get(self, key: str, default: Setting = None) -> Setting:
        """The value of a setting (by field name or key) or of a key of the user's own."""
        field = field_keys().get(key)
        return getattr(self, field) if field is not None else self._extra.get(key, default)

    def source_of(self, key: str) -> str:
        """Where a value came from: "default", "keyword", "file …", "env …" or "-c". KeyError for an unknown key."""
        field = field_keys().get(key)
        if field is None and key not in self._extra:
            raise KeyError(f"no setting {key!r}")
        return self._sources.get(field or key, "default")

    @property
    def user(self) -> Mapping[str, Setting]:
        """The user's own keys."""
        return MappingProxyType({key: value for key, value in self._extra.items() if not is_ignored(key)})

    @property
    def ignored(self) -> tuple[str, ...]:
        """The given keys of Storm or JStorm that have no effect here."""
        return tuple(sorted(key for key in self._extra if is_ignored(key)))

    def _explicit(self) -> Layer:
        """What was set, not defaulted."""
        values = {field: getattr(self, field) for field in self.model_fields_set} | self._extra
        return Layer(values, {name: self._sources.get(name, "keyword") for name in values})

    def __eq__(self, other: object) -> bool:
        # Where a value came from does not count.
        if not isinstance(other, Config):
            return NotImplemented
        return self.model_dump() == other.model_dump() and self._extra == other._extra

    def __hash__(self) -> int:
        return hash(tuple(self.model_dump().values()))


def component_config(config: Config, overrides: Mapping[str, Setting]) -> Config:
    """The topology's config with a component's own settings. ConfigError also for keys that are per topology."""
    if not overrides:
        return config
    fields = field_keys()
    problems = [
        f"{key} is a setting of the whole topology; it cannot be set for one component"
        for key in overrides
        if key in fields and fields[key] not in PER_COMPONENT
    ]
    allowed = {key: value for key, value in overrides.items() if fields.get(key, "debug") in PER_COMPONENT}
    try:
        explicit = config._explicit()  # pyright: ignore[reportPrivateUsage] - Config is of this module
        merged = _merged([explicit, Layer.of(allowed, "component")])
    except ConfigError as error:
        raise ConfigError(*problems, *error.problems) from error
    if problems:
        raise ConfigError(*problems)
    return merged


_FIELD_KEYS: dict[str, str] = {}


def field_keys() -> Mapping[str, str]:
    """Every name of every field → the field."""
    if not _FIELD_KEYS:
        for name, info in Config.model_fields.items():
            extra = info.json_schema_extra
            keys = cast("list[str]", extra["keys"]) if isinstance(extra, dict) else []
            _FIELD_KEYS.update(dict.fromkeys([name, *keys], name))
    return _FIELD_KEYS


def _resolve(layers: Sequence[Layer]) -> Resolved:
    optional = frozenset(name for name, info in Config.model_fields.items() if info.default is None)
    return resolve(layers, field_keys(), optional)


def _merged(layers: Sequence[Layer]) -> Config:
    resolved: dict[str, Setting] = {_RESOLVED: _resolve(layers)}
    return Config(**resolved)


def _problem(details: ErrorDetails, resolved: Resolved) -> str:
    """One of pydantic's errors, with the key as it was written, and where."""
    message = details["msg"].removeprefix("Value error, ")
    return f"{resolved.written[str(details['loc'][0])]}: {message}"


_ORDER = (
    Order("mailbox_low_mark", "mailbox_high_mark", strict=True),
    Order("backpressure_low_mark", "backpressure_high_mark", strict=True),
    *LIVENESS_ORDER,
)


def _order_problems(config: Config, resolved: Resolved) -> list[str]:
    """Settings that exceed others which they must not exceed."""
    names = {name for order in _ORDER for name in (order.low, order.high)} - FIXED.keys()
    defaults = FIXED | {name: Given(name, getattr(config, name), "default") for name in names}
    return order_problems({name: each.value for name, each in defaults.items()}, _ORDER, resolved.written, defaults)

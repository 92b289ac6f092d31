"""What a component gets from the framework when it starts: its view of the topology, and its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from .names import DEFAULT_STREAM
from .resources import find_resource

if TYPE_CHECKING:
    from .components import TaskHook
    from .config import Config
    from .fields import Fields
    from .measuring import TaskMetricsSource
    from .values import ResourceValue, StateValue


class StateDeclaration(Protocol):
    """What a bolt declares as `state`: `KeyedState` or `ValueState` (of the package `state`)."""

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields by which the input is grouped; empty: one value for each task."""
        ...

    @property
    def version(self) -> int:
        """Of the values: a snapshot of another version is refused."""
        ...


class TopologyContext:
    """A component's view of the topology in which it runs. Storm: TopologyContext."""

    __slots__ = (
        *("_add_hook", "_fields", "_metrics", "_resources", "_tasks"),
        *("component", "config", "state", "task_id", "task_index", "topology"),
    )

    def __init__(
        self,
        *,
        topology: str,
        component: str,
        task_id: int,
        task_index: int,
        config: Config,
        tasks: Mapping[str, tuple[int, ...]],
        fields: Mapping[tuple[str, str], Fields],
        add_hook: Callable[[TaskHook], None],
        resources: Mapping[str, ResourceValue] | None = None,
        state: StateValue = None,
        metrics: TaskMetricsSource | None = None,
    ) -> None:
        self._metrics = metrics
        self.state = state
        """The state of this task: a dict for a bolt with `KeyedState`, an object with `value` for `ValueState`."""
        self.topology = topology
        self.component = component
        self.task_id = task_id
        self.task_index = task_index
        self.config = config
        self._tasks = tasks
        self._fields = fields
        self._add_hook = add_hook
        self._resources: Mapping[str, ResourceValue] = {} if resources is None else resources

    @property
    def metrics(self) -> TaskMetricsSource:
        """Counters, gauges, meters and histograms of this component's own: see measuring.py.

        RuntimeError for a context that a test has made without them.
        """
        if self._metrics is None:
            raise RuntimeError("this context was made without metrics: TopologyContext(…, metrics=…)")
        return self._metrics

    def tasks(self, component: str) -> tuple[int, ...]:
        """The task ids of a component, ascending; for `emit_direct`."""
        try:
            return self._tasks[component]
        except KeyError:
            raise KeyError(f"no component {component!r}; there are: {', '.join(sorted(self._tasks))}") from None

    @property
    def parallelism(self) -> int:
        """The number of tasks of this component."""
        return len(self._tasks[self.component])

    def fields(self, component: str, stream: str = DEFAULT_STREAM) -> Fields:
        """The declared fields of a component's stream."""
        try:
            return self._fields[component, stream]
        except KeyError:
            raise KeyError(f"{component!r} declares no stream {stream!r}") from None

    def resource(self, name: str) -> ResourceValue:
        """The resource of this worker with that name: see TopologyBuilder.resource. ResourceError if there is none."""
        return find_resource(name, self._resources)

    def add_task_hook(self, hook: TaskHook) -> None:
        """Attach a hook to this task; call this in `open` or `prepare`."""
        self._add_hook(hook)

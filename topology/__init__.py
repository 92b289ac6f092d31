"""The parts of a topology, checked and frozen; nothing here runs."""

from importlib import import_module
from typing import TYPE_CHECKING

from .collectors import BasicCollector, BatchCollector, BoltCollector, SpoutCollector
from .completion import Completion
from .components import (
    AckValueSpout,
    BasicBolt,
    Bolt,
    Component,
    Failure,
    FailValueSpout,
    Outputs,
    Progress,
    Spout,
    TaskHook,
    Windowed,
)
from .config import Config, component_config
from .config_keys import UPDATABLE, nearest
from .context import StateDeclaration, TopologyContext
from .errors import ColumnsError, ConfigError, EmitError, ResourceError, TopologyError, UnhashableKeyError
from .fields import Fields
from .functions import FunctionBolt, FunctionSpout, bolt, spout
from .groupings.all import AllGrouping
from .groupings.base import Grouping, GroupingContext, never
from .groupings.custom import CustomGrouping
from .groupings.direct import DirectGrouping
from .groupings.fields import FieldsGrouping
from .groupings.global_ import GlobalGrouping
from .groupings.key_range import KeyRangeGrouping, KeyRanges
from .groupings.keyed import KeyedGrouping
from .groupings.local_first import LocalFirstGrouping
from .groupings.local_or_shuffle import LocalOrShuffleGrouping
from .groupings.none import NoneGrouping
from .groupings.partial_key import PartialKeyGrouping
from .groupings.shares import Share, share_each, share_out
from .groupings.shuffle import ShuffleGrouping
from .groupings.spreading import Rest, Spreading
from .guarantees import lost_at_restart
from .keys import stable_hash, value_hashes
from .names import (
    ACKER_COMPONENT,
    BARRIER_STREAM,
    DEAD_LETTER_STREAM,
    DEFAULT_STREAM,
    SYSTEM_COMPONENT,
    TICK_STREAM,
    WATERMARK_STREAM,
)
from .plan import Plan, TaskSpec, make_plan, plan_with
from .resources import Managed, Resource, WorkerContext, given_resource
from .retention import retention_problems
from .snapshot_config import Guarantee
from .streams import (
    BARRIER_FIELDS,
    DEAD_LETTER_FIELDS,
    WATERMARK_FIELDS,
    StreamDecl,
    StreamId,
    direct,
    read_outputs,
)
from .time_flow import LaterRows, TimeFlow, TimeRole, Windowing, time_flow
from .topology import ComponentSpec, Subscription, Topology
from .tuples import (
    ColumnChoices,
    ColumnRows,
    Lineage,
    Origin,
    RepeatedAnchor,
    Segment,
    TimedItems,
    Tuple,
    TupleBatch,
    batch_of,
    column_rows,
    deal_columns,
    greatest_of,
    has_batches,
    has_identity,
    is_batch,
    metadata_of,
    part_of,
    pieces_of,
    split_columns,
    with_identity_of,
)
from .values import (
    Anchor,
    Column,
    DataType,
    Function,
    Item,
    Key,
    MessageId,
    Position,
    PyArrow,
    RecordBatch,
    ResourceValue,
    Result,
    Returned,
    Row,
    Setting,
    SharedObject,
    StateValue,
    Timestamp,
    Unchecked,
    Value,
)
from .window_keys import WindowDivision, WindowKey, window_division

if TYPE_CHECKING:
    from .builder import BoltDeclarer, SpoutDeclarer, TopologyBuilder
    from .layout import Layout, layered
    from .outline import outlined
    from .pictures import drawn_inputs, graph_document, grouping_text
    from .shown_settings import shown_setting, shown_value
    from .svg import Arrow, Box, draw_graph
    from .text import markup, printable, shortened

__all__ = [
    "ACKER_COMPONENT",
    "BARRIER_FIELDS",
    "BARRIER_STREAM",
    "DEAD_LETTER_FIELDS",
    "DEAD_LETTER_STREAM",
    "DEFAULT_STREAM",
    "SYSTEM_COMPONENT",
    "TICK_STREAM",
    "UPDATABLE",
    "WATERMARK_FIELDS",
    "WATERMARK_STREAM",
    "AckValueSpout",
    "AllGrouping",
    "Anchor",
    "Arrow",
    "BasicBolt",
    "BasicCollector",
    "BatchCollector",
    "Bolt",
    "BoltCollector",
    "BoltDeclarer",
    "Box",
    "Column",
    "ColumnChoices",
    "ColumnRows",
    "ColumnsError",
    "Completion",
    "Component",
    "ComponentSpec",
    "Config",
    "ConfigError",
    "CustomGrouping",
    "DataType",
    "DirectGrouping",
    "EmitError",
    "FailValueSpout",
    "Failure",
    "Fields",
    "FieldsGrouping",
    "Function",
    "FunctionBolt",
    "FunctionSpout",
    "GlobalGrouping",
    "Grouping",
    "GroupingContext",
    "Guarantee",
    "Item",
    "Key",
    "KeyRangeGrouping",
    "KeyRanges",
    "KeyedGrouping",
    "LaterRows",
    "Layout",
    "Lineage",
    "LocalFirstGrouping",
    "LocalOrShuffleGrouping",
    "Managed",
    "MessageId",
    "NoneGrouping",
    "Origin",
    "Outputs",
    "PartialKeyGrouping",
    "Plan",
    "Position",
    "Progress",
    "PyArrow",
    "RecordBatch",
    "RepeatedAnchor",
    "Resource",
    "ResourceError",
    "ResourceValue",
    "Rest",
    "Result",
    "Returned",
    "Row",
    "Segment",
    "Setting",
    "Share",
    "SharedObject",
    "ShuffleGrouping",
    "Spout",
    "SpoutCollector",
    "SpoutDeclarer",
    "Spreading",
    "StateDeclaration",
    "StateValue",
    "StreamDecl",
    "StreamId",
    "Subscription",
    "TaskHook",
    "TaskSpec",
    "TimeFlow",
    "TimeRole",
    "TimedItems",
    "Timestamp",
    "Topology",
    "TopologyBuilder",
    "TopologyContext",
    "TopologyError",
    "Tuple",
    "TupleBatch",
    "Unchecked",
    "UnhashableKeyError",
    "Value",
    "WindowDivision",
    "WindowKey",
    "Windowed",
    "Windowing",
    "WorkerContext",
    "batch_of",
    "bolt",
    "column_rows",
    "component_config",
    "deal_columns",
    "direct",
    "draw_graph",
    "drawn_inputs",
    "given_resource",
    "graph_document",
    "greatest_of",
    "grouping_text",
    "has_batches",
    "has_identity",
    "is_batch",
    "layered",
    "lost_at_restart",
    "make_plan",
    "markup",
    "metadata_of",
    "nearest",
    "never",
    "outlined",
    "part_of",
    "pieces_of",
    "plan_with",
    "printable",
    "read_outputs",
    "retention_problems",
    "share_each",
    "share_out",
    "shortened",
    "shown_setting",
    "shown_value",
    "split_columns",
    "spout",
    "stable_hash",
    "time_flow",
    "value_hashes",
    "window_division",
    "with_identity_of",
]


_LATER = {
    "builder": "BoltDeclarer SpoutDeclarer TopologyBuilder",
    "layout": "Layout layered",
    "outline": "outlined",
    "pictures": "drawn_inputs graph_document grouping_text",
    "shown_settings": "shown_setting shown_value",
    "svg": "Arrow Box draw_graph",
    "text": "markup printable shortened",
}


def __getattr__(name: str) -> object:
    """What is imported when it is first used: the builder and its checks, and what draws."""
    for module, names in _LATER.items():
        if name in names.split():
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

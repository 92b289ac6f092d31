"""The nouns: what a topology is made of, checked and frozen, and nothing that runs."""

from .components import (
    AckValueSpout,
    BasicBolt,
    BasicCollector,
    Bolt,
    BoltCollector,
    Component,
    Failure,
    FailValueSpout,
    Outputs,
    Spout,
    SpoutCollector,
    TaskHook,
    TopologyContext,
)
from .errors import ConfigError, EmitError, TopologyError, UnhashableKeyError
from .fields import Fields
from .groupings import (
    AllGrouping,
    CustomGrouping,
    DirectGrouping,
    GlobalGrouping,
    Grouping,
    GroupingContext,
    Share,
    never,
    share_out,
)
from .keyed import FieldsGrouping, KeyRangeGrouping, KeyRanges, PartialKeyGrouping
from .keys import stable_hash
from .shuffles import LocalFirstGrouping, LocalOrShuffleGrouping, NoneGrouping, ShuffleGrouping
from .streams import DEAD_LETTER_FIELDS, StreamDecl, StreamId, direct
from .tuples import (
    ACKER_COMPONENT,
    DEAD_LETTER_STREAM,
    DEFAULT_STREAM,
    SYSTEM_COMPONENT,
    TICK_STREAM,
    Lineage,
    Origin,
    Row,
    Segment,
    Tuple,
    TupleBatch,
)

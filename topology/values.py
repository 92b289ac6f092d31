"""The names of what users give and get: a topology keeps and passes on such values, and knows nothing of their types.

The last names are for Arrow's objects: pyarrow has no type hints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

Value: TypeAlias = Any
"""The value of one field of a row."""

Row: TypeAlias = tuple[Value, ...]
"""The values of one tuple."""

Item: TypeAlias = Any
"""A row as a segment contains it: a Row, or on a stream with one field the bare value."""

Key: TypeAlias = Any
"""The key of a row, hashable: the value of the only key field, or a tuple of the values of several."""

Anchor: TypeAlias = Any
"""What ties a row to its messages. Groupings, also those of users, only pass anchors on."""

MessageId: TypeAlias = Any
"""The message id that a spout emits a tuple with; it need not be hashable."""

Timestamp: TypeAlias = Any
"""A point in time that a user gives: milliseconds since 1970 (also of NumPy), or a datetime with a zone."""

Returned: TypeAlias = Any
"""What a user's method returns, or an awaitable of it: the method may be `def` or `async def`."""

Function: TypeAlias = Callable[..., Returned]
"""A user's function, with any arguments."""

Result: TypeAlias = Any
"""The result of a task: plain data."""

Setting: TypeAlias = Any
"""The value of a setting, or of a key of the user's own in the configuration."""

ResourceValue: TypeAlias = Any
"""The object that the tasks of a worker share under the name of a resource."""

StateValue: TypeAlias = Any
"""The state of a task: a State (a dict), a Value, or None."""

Position: TypeAlias = Any
"""How far a spout has read its source: any value that can be sent to another process."""

SharedObject: TypeAlias = Any
"""An object that groupings of one process share. Each grouping knows the type of its own."""

SettingKey: TypeAlias = Any
"""The key of a setting, as a file or a user gives it: text, if it is right."""

Declared: TypeAlias = Any
"""The declaration of a stream: Fields, a name, a list of names, or `direct(…)`."""

Unchecked: TypeAlias = Any
"""What a user declares, before it is checked: a type checker believes the annotations, and users need not have one."""

RecordBatch: TypeAlias = Any
"""A pyarrow.RecordBatch."""

Column: TypeAlias = Any
"""A column of a RecordBatch: a pyarrow.Array."""

DataType: TypeAlias = Any
"""The type of a column: a pyarrow.DataType."""

PyArrow: TypeAlias = Any
"""The module pyarrow, or a module of it."""

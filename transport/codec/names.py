"""The names of what is encoded and decoded: the codec knows which types it may send, but no single type."""

from __future__ import annotations

from typing import Any, TypeAlias

Value: TypeAlias = Any
"""A value to send, or a received one: of any type. A type that cannot be sent is an UnsendableError."""

Walked: TypeAlias = Any
"""What msgpack encodes for a value: plain values, their containers, and extensions."""

Received: TypeAlias = Any
"""A decoded value from another process. The receiver checks its shape before it uses the value."""

RecordClass: TypeAlias = Any
"""A class that may be sent: a named tuple, a dataclass or a pydantic model."""

RecordBatch: TypeAlias = Any
"""A pyarrow.RecordBatch. pyarrow has no type hints."""

Column: TypeAlias = Any
"""A column of a RecordBatch: a pyarrow.Array."""

DataType: TypeAlias = Any
"""The type of a column, or the schema of a RecordBatch: a pyarrow.DataType or pyarrow.Schema."""

ArrowBuffer: TypeAlias = Any
"""Bytes as Arrow reads them: a pyarrow.Buffer, or a stream of it."""

PyArrow: TypeAlias = Any
"""The module pyarrow, or a module of it."""

"""Arrays: NumPy arrays and scalars as bytes. Imported when there is one.

    array    length of dtype 1, dtype (`<f8`), dimensions 1, each dimension 8, the elements in C order
    scalar   length of dtype 1, dtype, the element; of a str_ (`U`) its UTF-8, of a bytes_ (`S`) itself

1. The dtype must match a pattern, and is never an object dtype; its length, the shape and the number of bytes are
   compared before NumPy gets them.
2. The content is checked, too: a bool is 0 or 1, a character is one of Unicode.
3. A decoded array is in C order, writable, with its own memory.
"""

from __future__ import annotations

import math
import re
import struct
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from .extensions import UnfitError

if TYPE_CHECKING:
    from .names import Value

Array = NDArray[np.generic]

MAX_DIMENSIONS: Final = 32

_UNIT: Final = r"\[(?:[1-9]\d{0,8})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]"
_DTYPE: Final = re.compile(
    rf"\|[bui]1|[<>](?:[ui][248]|f[248]|c8|c16|[Mm]8(?:{_UNIT})?|U[1-9]\d{{0,6}})|\|S[1-9]\d{{0,6}}", re.ASCII
)


def encode_array(value: Array) -> bytes:
    """Encode an array. UnfitError for other dtypes."""
    kind = _dtype_name(value.dtype)
    if value.ndim > MAX_DIMENSIONS:
        raise UnfitError(f"an array of {value.ndim} dimensions cannot be sent: at most {MAX_DIMENSIONS}")
    shape = struct.pack(f"!B{value.ndim}Q", value.ndim, *value.shape)
    return bytes((len(kind),)) + kind + shape + value.tobytes()


def decode_array(data: bytes) -> Array:
    """Decode an array. ValueError and the like if it is malformed."""
    kind, at = _dtype(data)
    (dimensions,) = struct.unpack_from("!B", data, at)
    if dimensions > MAX_DIMENSIONS:
        raise ValueError(f"an array of {dimensions} dimensions")
    shape = struct.unpack_from(f"!{dimensions}Q", data, at + 1)
    at += 1 + 8 * dimensions
    if math.prod(shape) * kind.itemsize != len(data) - at or max(shape, default=0) >= 2**31:
        raise ValueError(f"an array of shape {shape} and {len(data) - at} bytes")
    made = np.frombuffer(data, kind, offset=at) if len(data) > at else np.empty(0, kind)
    _check_content(made)
    return made.reshape(shape).copy()


def encode_scalar(value: Value) -> bytes:
    """Encode a scalar. UnfitError for other types."""
    kind = type(value)
    if kind is np.str_:
        return b"\1U" + _utf8(value)
    if kind is np.bytes_:
        return b"\1S" + bytes(value)
    dtype: np.dtype[np.generic] = value.dtype
    if dtype.type is not kind:
        raise UnfitError(f"a value of type {kind.__module__}.{kind.__qualname__} cannot be sent: send value.item()")
    name = _dtype_name(dtype)
    element: bytes = value.tobytes()
    return bytes((len(name),)) + name + element


def decode_scalar(data: bytes) -> np.generic:
    """Decode a scalar."""
    if data[:2] == b"\1U":
        return np.str_(data[2:].decode())
    if data[:2] == b"\1S":
        return np.bytes_(data[2:])
    kind, at = _dtype(data)
    if kind.kind in "US" or kind.itemsize != len(data) - at:
        raise ValueError(f"a scalar {kind.str} of {len(data) - at} bytes")
    made = np.frombuffer(data, kind, offset=at)
    _check_content(made)
    found: np.generic = made[0]
    return found


def _utf8(text: str) -> bytes:
    try:
        found: bytes = str.encode(text)  # str(text) would drop NULs at the end
        return found
    except UnicodeEncodeError as error:
        raise UnfitError("a numpy.str_ with lone surrogates cannot be sent: send str(value)") from error


def _dtype_name(dtype: np.dtype[np.generic]) -> bytes:
    name: str = dtype.str
    if dtype.fields is not None or not _DTYPE.fullmatch(name):
        raise UnfitError(
            f"NumPy's dtype {dtype.str!r} cannot be sent: use bool, integers, floats and complex numbers of up to 8 "
            "bytes a part, datetime64, timedelta64, fixed strings; for objects send a list"
        )
    return name.encode()


def _dtype(data: bytes) -> tuple[np.dtype[np.generic], int]:
    end = 1 + data[0]
    name = data[1:end].decode("ascii")
    if len(data) < end or not _DTYPE.fullmatch(name):
        raise ValueError(f"a NumPy dtype {name!r:.80}")
    made = np.dtype(name)
    if made.str != name:
        raise ValueError(f"a NumPy dtype {name!r:.80} is written {made.str!r}")
    return made, end


def _check_content(flat: Array) -> None:
    if flat.dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
        raise ValueError("a NumPy bool that is neither 0 nor 1")
    if flat.dtype.kind == "U" and flat.size:
        points = flat.view(np.dtype(np.uint32).newbyteorder(flat.dtype.byteorder))
        if points.max() > 0x10FFFF:
            raise ValueError("a NumPy string with what is no character")

"""Encodes Python values as bytes, and decodes them.

values.py encodes msgpack with the closed table of extensions.py; arrays.py and batches.py are the part of that table
for NumPy and Arrow, imported when needed. records.py has the classes that may be sent. scan.py checks received bytes
before they are decoded, sizes.py values before they are copied; numbers.py encodes lists of integers. payloads.py has
the kinds of payloads of a link, messages.py what a package needs to encode its own messages for tasks.
"""

from ..errors import ProtocolError, UnreadableError, UnsendableError
from .messages import MessageCodec, MessageCodecs
from .names import Received, Value, Walked
from .numbers import pack_numbers, pack_pairs, unpack_numbers, unpack_pairs
from .payloads import PayloadKind, pack_bundle, pack_payload, unpack_all, unpack_payload
from .records import register_record
from .scan import MAX_ITEMS, scan
from .sizes import batch_bytes
from .values import (
    pack_column,
    pack_plain,
    pack_plain_column,
    pack_value,
    unpack_column,
    unpack_plain_column,
    unpack_value,
)

__all__ = [
    "MAX_ITEMS",
    "MessageCodec",
    "MessageCodecs",
    "PayloadKind",
    "ProtocolError",
    "Received",
    "UnreadableError",
    "UnsendableError",
    "Value",
    "Walked",
    "batch_bytes",
    "pack_bundle",
    "pack_column",
    "pack_numbers",
    "pack_pairs",
    "pack_payload",
    "pack_plain",
    "pack_plain_column",
    "pack_value",
    "register_record",
    "scan",
    "unpack_all",
    "unpack_column",
    "unpack_numbers",
    "unpack_pairs",
    "unpack_payload",
    "unpack_plain_column",
    "unpack_value",
]

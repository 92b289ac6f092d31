"""Encodes Python values as bytes, and decodes them.

values.py encodes msgpack with the closed table of extensions.py; arrays.py and batches.py are the part of that table
for NumPy and Arrow, imported when needed. records.py has the classes that may be sent. scan.py checks received bytes
before they are decoded, sizes.py values before they are copied; numbers.py encodes lists of integers. payloads.py has
the kinds of payloads of a link.
"""

from .numbers import pack_numbers, pack_pairs, pack_small, unpack_numbers, unpack_pairs, unpack_small
from .payloads import PAYLOAD_HEADER_BYTES, PayloadKind, pack_bundle, pack_payload, unpack_all, unpack_payload
from .records import register_record
from .scan import CHECKED_BYTES, MAX_DEPTH, MAX_ITEMS, scan
from .sizes import batch_bytes, largest_column
from .values import (
    WRONG,
    batch_module,
    check_items,
    pack_column,
    pack_message,
    pack_plain,
    pack_plain_column,
    pack_value,
    unpack_column,
    unpack_message,
    unpack_plain_column,
    unpack_value,
)

__all__ = [
    "CHECKED_BYTES",
    "MAX_DEPTH",
    "MAX_ITEMS",
    "PAYLOAD_HEADER_BYTES",
    "WRONG",
    "PayloadKind",
    "batch_bytes",
    "batch_module",
    "check_items",
    "largest_column",
    "pack_bundle",
    "pack_column",
    "pack_message",
    "pack_numbers",
    "pack_pairs",
    "pack_payload",
    "pack_plain",
    "pack_plain_column",
    "pack_small",
    "pack_value",
    "register_record",
    "scan",
    "unpack_all",
    "unpack_column",
    "unpack_message",
    "unpack_numbers",
    "unpack_pairs",
    "unpack_payload",
    "unpack_plain_column",
    "unpack_small",
    "unpack_value",
]

"""Wire: requests and responses between a client and nimbus, as frames. Pure.

    request    {"request": "kill", "arguments": {"name": "words"}}             one frame
    code       the archive, in frames of PIECE_BYTES                           after the response to "upload"
    response   \\1 piece … \\0 last piece: {"value": …} or {"error": KIND, "text": …}

1. It is JSON: nothing that arrives makes an object but those that the request declares. Sizes are checked first.
2. A request of another version shows itself: an unknown one, or an unknown argument, is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from .errors import RequestError

MAX_REQUEST_BYTES: Final = 256 * 1024
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
PIECE_BYTES: Final = 128 * 1024
"""Of code, and of a response."""

_MORE, _LAST = b"\1", b"\0"


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for."""

    request: str
    arguments: dict[str, JsonValue] = field(default_factory=dict)


_REQUEST: Final = TypeAdapter(Request)


def request_frame(name: str, arguments: Mapping[str, Any]) -> bytes:
    """A request. RequestError if it is too large."""
    frame = json.dumps({"request": name, "arguments": arguments}).encode()
    if len(frame) > MAX_REQUEST_BYTES:
        raise RequestError(
            f"the request has {len(frame):,} bytes, and may have {MAX_REQUEST_BYTES:,}: give large settings in a file "
            "of the code"
        )
    return frame


def read_request(frame: bytes) -> Request:
    """The request in a frame. RequestError if it is none."""
    if len(frame) > MAX_REQUEST_BYTES:
        raise RequestError(f"a request of {len(frame):,} bytes: at most {MAX_REQUEST_BYTES:,}")
    try:
        return _REQUEST.validate_json(frame)
    except ValidationError as error:
        raise RequestError(f"this is no request: {problems_of(error)}") from error


def problems_of(error: ValidationError) -> str:
    """What is wrong with data, without the data."""
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors()[:3])


def value_frames(value: bytes) -> Iterator[bytes]:
    """The response with a value, which is JSON. RequestError if it is too large."""
    if len(value) > MAX_RESPONSE_BYTES:
        raise RequestError(f"the response has {len(value):,} bytes, and may have {MAX_RESPONSE_BYTES:,}")
    return _frames(b'{"value":' + value + b"}")


def error_frames(kind: str, text: str) -> Iterator[bytes]:
    """The response to a request that failed. `kind`: the name of the error's class."""
    return _frames(json.dumps({"error": kind, "text": text}).encode())


def _frames(document: bytes) -> Iterator[bytes]:
    for start in range(0, len(document), PIECE_BYTES):
        last = start + PIECE_BYTES >= len(document)
        yield (_LAST if last else _MORE) + document[start : start + PIECE_BYTES]


class ResponseReader:
    """Puts the frames of a response together."""

    def __init__(self) -> None:
        self._document = bytearray()

    def feed(self, frame: bytes) -> bytes | None:
        """Take a frame. The document, once it is whole. RequestError if it is no response."""
        if frame[:1] not in (_MORE, _LAST) or len(self._document) + len(frame) > MAX_RESPONSE_BYTES + PIECE_BYTES:
            raise RequestError("nimbus sends what is no response: do both run the same version?")
        self._document += frame[1:]
        return bytes(self._document) if frame[:1] == _LAST else None

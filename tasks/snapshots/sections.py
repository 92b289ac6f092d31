"""How the sections of a task's blobs are loaded that are no dicts of their keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from .handles import HandleLoader
from .saved import HANDLE, WINDOWS
from .window_loading import WindowLoader

if TYPE_CHECKING:
    from ...state import SectionLoader

LOADERS: Final[Mapping[int, Callable[[], SectionLoader]]] = MappingProxyType(
    {HANDLE: HandleLoader, WINDOWS: WindowLoader}
)

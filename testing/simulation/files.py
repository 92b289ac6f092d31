"""Files: the trace and the diagram that the user requested on pytest's command line.

The first test that fails is written, in its shortest form if it is shrunk; if none fails, the last test is.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .diagram import diagram_of, mermaid
from .svg import svg

if TYPE_CHECKING:
    from .world import World


class OutputFiles:
    """The names of the files, and the test that is written to them."""

    def __init__(self, config: pytest.Config) -> None:
        options = config.option
        self._trace: str | None = options.simulation_trace
        self._diagram: str | None = options.simulation_diagram
        self._about: str | None = options.simulation_about
        self._of: str | None = None
        if self._diagram and not self._diagram.endswith((".mmd", ".svg")):
            raise pytest.UsageError(f"--simulation-diagram: {self._diagram!r} ends neither in .svg nor in .mmd")

    def wants(self, nodeid: str) -> bool:
        """May this test be written?"""
        return bool(self._trace or self._diagram) and self._of in (None, nodeid)

    def write(self, world: World | None, nodeid: str) -> None:
        """This test has failed (or none did, and it was the last): write it, unless another was written."""
        if world is None or not self.wants(nodeid):
            return
        self._of = nodeid
        if self._trace:
            Path(self._trace).write_text(world.trace.text() + "\n", encoding="utf-8")
        if self._diagram:
            diagram = diagram_of(world.trace.events, about=self._about)
            text = svg(diagram) if self._diagram.endswith(".svg") else mermaid(diagram)
            Path(self._diagram).write_text(text, encoding="utf-8")

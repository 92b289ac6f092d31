"""What runs inside a child process: a module gets another source, by an import hook or function by function.

The checkout is never written to. Processes that a test starts import the module as it is: what only they execute is
tested by no mutant.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.main import pytest_runtestloop as run_tests

from .codes import NOT_SWAPPED, Order

if TYPE_CHECKING:
    from .zygote import Server


def module_name(file: str) -> str:
    """The name under which a module of the repository is imported: acker/ledger.py → aiostorm.acker.ledger."""
    name = file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return name if name.startswith("aiostorm.") else f"aiostorm.{name}"


class MutatedLoader(SourceFileLoader):
    """Compiles this source in place of the file's; nothing is cached."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._source, self.path, "exec", dont_inherit=True)


class Overlay:
    """A finder, the first of all: one module has this source."""

    def __init__(self, file: str, source: str) -> None:
        self._name = module_name(file)
        self._source = source

    def install(self) -> None:
        """Import the module with this source. Raises what the import raises.

        This is done before pytest begins: pytest's own import hook would come first, because it rewrites the
        assertions of everything that is distributed with a plugin.
        """
        if self._name in sys.modules:
            raise RuntimeError(f"{self._name} is imported already: its mutant would have no effect")
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]
        importlib.import_module(self._name)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the mutant; None for all other modules."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return None
        return importlib.util.spec_from_loader(name, MutatedLoader(name, spec.origin, self._source))


class Touched:
    """Which tests call which functions of some modules (`FILE:FUNCTION`), and how long they take."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = {os.path.realpath(file): file for file in files}
        self._known: dict[str, str] = {}
        self._called: set[str] = set()
        self.tests: dict[str, tuple[list[str], float]] = {}
        self.always: set[str] = set()
        """Functions that are called outside of tests, for example at import."""

    def start(self) -> None:
        """Observe all threads that start from here on, and this one."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def stop(self) -> None:
        """Observe no more."""
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.always |= self._called
        self._called.clear()
        self.tests[item.nodeid] = ([], 0.0)
        began_s = time.process_time()
        result = yield
        self.tests[item.nodeid] = (sorted(self._called), time.process_time() - began_s)
        self._called.clear()
        return result

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (file := self.file_of(frame.f_code)):
            self._called.add(f"{file}:{frame.f_code.co_qualname}")

    def file_of(self, code: CodeType) -> str:
        """The module that has this code; '' if it is another one."""
        file = self._known.get(code.co_filename)
        if file is None:
            file = self._known[code.co_filename] = self._files.get(os.path.realpath(code.co_filename), "")
        return file


class Collected:
    """In place of the loop that runs the tests: serve orders. The tests run in forks."""

    def __init__(self, server: Server, files: Sequence[str]) -> None:
        self._server = server
        self._touched = Touched(files)
        self._touched.start()  # what is called while tests are collected
        self._session: pytest.Session | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._touched.stop()
        if session.testsfailed:
            raise session.Failed("the tests cannot be collected")
        self._session = session
        self._server.serve(self._child)
        return True

    def _child(self, order: Order, survey: Path) -> int:
        session = self._session
        assert session is not None
        if not order.source:
            return self._survey(session, survey)
        if not swap_code(order, self._touched):
            return NOT_SWAPPED
        places = {test: place for place, test in enumerate(order.chosen)}
        session.items = sorted(
            (item for item in session.items if item.nodeid in places), key=lambda item: places[item.nodeid]
        )
        session.config.option.maxfail = 1
        return self._run(session)

    def _survey(self, session: pytest.Session, survey: Path) -> int:
        touched = self._touched
        session.config.pluginmanager.register(touched)
        touched.start()
        code = self._run(session)
        touched.stop()
        survey.write_text(json.dumps({"tests": touched.tests, "always": sorted(touched.always)}), "utf-8")
        return code

    def _run(self, session: pytest.Session) -> int:
        with contextlib.suppress(session.Failed, session.Interrupted):
            run_tests(session)
        return int(session.testsfailed > 0)


def swap_code(order: Order, known: Touched) -> bool:
    """Put the mutant's code of the function into all functions made of it. False if that is not possible."""
    name = order.function.partition(".<locals>")[0]
    gc.unfreeze()  # tests/conftest.py freezes what modules of tests leave: it would not be found
    functions = [
        found
        for found in gc.get_objects()
        if isinstance(found, FunctionType)
        and found.__code__.co_qualname == name
        and known.file_of(found.__code__) == order.file
    ]
    if len({found.__code__ for found in functions}) != 1:
        return False
    old = functions[0].__code__
    [code] = [
        code
        for code in _codes(compile(order.source, old.co_filename, "exec", dont_inherit=True))
        if code.co_qualname == name and code.co_firstlineno == old.co_firstlineno
    ] or [old]
    if code is old or code.co_freevars != old.co_freevars:
        return False
    for found in functions:
        found.__code__ = code
    return True


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


class Chosen:
    """Only these tests, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._places = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self._places), key=lambda item: self._places[item.nodeid]
        )

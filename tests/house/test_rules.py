"""Each rule bites on what it is against, and leaves alone what looks like it."""

from __future__ import annotations

from functools import partial

import pytest

from . import rules
from .source import Source

outside = partial(rules.imports_outside, private_too=False)
MACHINE = "acker/ledger.py"

BAD = [
    (rules.no_wait_for, "acker/a.py", "import asyncio\nasyncio.wait_for(x, 1)"),
    (rules.no_wait_for, "acker/a.py", "from asyncio import wait_for as w\nw(x, 1)"),
    (rules.no_wait_for, "acker/a.py", "import asyncio as a\nresult = [a.wait_for(x, 1)]"),
    (rules.no_bare_task, "acker/a.py", "import asyncio\nasyncio.create_task(x())"),
    (rules.no_bare_task, "acker/a.py", "from asyncio import ensure_future\nensure_future(x())"),
    (rules.no_bare_task, "acker/a.py", "from asyncio import Task\nTask(x())"),
    (rules.no_bare_task, "acker/a.py", "self._loop.create_task(x())"),
    (rules.no_bare_task, "acker/a.py", "import asyncio\nasyncio.get_running_loop().create_task(x())"),
    (rules.no_own_loop, "cluster/a.py", "import asyncio\nasyncio.run(x())"),
    (rules.no_own_loop, "cluster/a.py", "import asyncio\nasyncio.get_event_loop()"),
    (rules.no_own_loop, "examples/a.py", "import asyncio\nasyncio.run(x())"),
    (rules.machines_are_pure, MACHINE, "import time"),
    (rules.machines_are_pure, MACHINE, "from asyncio import Queue"),
    (rules.machines_are_pure, "topology/a.py", "def f():\n    import concurrent.futures"),
    (rules.no_code_loading, "tests/a.py", "import pickle"),
    (rules.no_code_loading, "tests/a.py", "from cloudpickle import dumps"),
    (rules.no_code_loading, "tests/a.py", "eval('1')"),
    (rules.no_code_loading, "tests/a.py", "import yaml\nyaml.load(text, Loader=yaml.SafeLoader)"),
    (rules.no_code_loading, "tests/a.py", "import subprocess\nsubprocess.run('ls', shell=True)"),
    (rules.no_code_loading, "tests/a.py", "import os\nos.system('ls')"),
    (rules.no_print, "tasks/a.py", "print(1)"),
    (rules.no_swallowing, "tasks/a.py", "try:\n    f()\nexcept:\n    raise"),
    (rules.no_swallowing, "tasks/a.py", "try:\n    f()\nexcept Exception:\n    pass"),
    (
        rules.no_swallowing,
        "tasks/a.py",
        "for x in y:\n    try:\n        f()\n    except (OSError, Exception):\n        continue",
    ),
    (rules.no_swallowing, "tasks/a.py", "import contextlib\nwith contextlib.suppress(Exception):\n    f()"),
    (rules.short_enough, "tasks/a.py", "x = 1\n" * 451),
    (rules.short_enough, "tasks/a.py", "async def f():\n" + "    x = 1\n" * 60),
    (rules.imports_inside, "tasks/a.py", "from aiostorm.actors import Actor"),
    (rules.imports_inside, "tasks/a.py", "import aiostorm"),
    (rules.imports_inside, "tasks/a.py", "from actors import Actor"),
    (rules.imports_inside, "tasks/a.py", "from ..actors.ref import Ref"),
    (rules.imports_inside, "tasks/a.py", "from .. import actors"),
    (rules.imports_inside, "tasks/a.py", "from ..actors import _hidden"),
    (rules.imports_at_the_top, "aiostorm/__main__.py", "from .actors.ref import Ref"),
    (rules.imports_at_the_top, "aiostorm/__main__.py", "from aiostorm.actors.ref import Ref"),
    (rules.imports_at_the_top, "aiostorm/__main__.py", "from actors import Ref"),
    (rules.imports_at_the_top, "aiostorm/cli/run.py", "from ..actors.ref import Ref"),
    (rules.imports_inside, "tasks/emit/a.py", "from ...actors.ref import Ref"),
    (rules.imports_inside, "tasks/a.py", "from ..testing.simulation.run import Outcome"),
    (rules.imports_inside, "tasks/a.py", "from ..testing.simulation import _hidden"),
    (outside, "examples/a.py", "from actors import Actor"),
    (outside, "examples/a.py", "from aiostorm.actors.ref import Ref"),
    (partial(rules.imports_outside, private_too=True), "tests/a.py", "import topology"),
]

GOOD = [
    (rules.no_wait_for, "acker/a.py", "import asyncio\nasyncio.timeout(1)\nself.wait_for(x)"),
    (
        rules.no_bare_task,
        "acker/a.py",
        "import asyncio\nasync with asyncio.TaskGroup() as group:\n    group.create_task(x())",
    ),
    (rules.no_bare_task, "actors/system.py", "self.loop.create_task(x())"),
    (rules.no_bare_task, "acker/a.py", "import asyncio\ndef f(task: asyncio.Task[None]) -> None: ..."),
    (rules.no_own_loop, "cluster/a.py", "import asyncio\nasyncio.get_running_loop()"),
    (rules.no_own_loop, "aiostorm/cli/run.py", "import asyncio\nasyncio.run(x())"),
    (rules.no_own_loop, "examples/a.py", "import asyncio\nif __name__ == '__main__':\n    asyncio.run(x())"),
    (rules.machines_are_pure, MACHINE, "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import asyncio"),
    (rules.machines_are_pure, "cluster/a.py", "import asyncio"),
    (rules.no_code_loading, "tests/a.py", "import yaml, ast\nyaml.safe_load(text)\nast.literal_eval(text)"),
    (rules.no_print, "aiostorm/cli/app.py", "print(1)"),
    (rules.no_swallowing, "tasks/a.py", "try:\n    f()\nexcept Exception as error:\n    report(error)"),
    (rules.no_swallowing, "tasks/a.py", "try:\n    f()\nexcept KeyError:\n    pass"),
    (rules.short_enough, "tasks/a.py", 'def f():\n    """' + "word\n" * 70 + '    """\n    return 1'),
    (rules.imports_inside, "tasks/a.py", "from ..actors import Actor\nfrom .emitter import Emitter\nimport asyncio"),
    (rules.imports_at_the_top, "aiostorm/__main__.py", "from .actors import Actor\nfrom .cli_run import run"),
    (outside, "examples/a.py", "from aiostorm import Bolt\nfrom aiostorm.actors import Actor"),
    (partial(rules.imports_outside, private_too=True), "tests/a.py", "from aiostorm.actors.ref import Ref"),
]


@pytest.mark.parametrize(("rule", "name", "text"), BAD)
def test_bites(rule: rules.Rule, name: str, text: str):
    faults = list(rule(Source.of(text, name)))
    assert faults, "found nothing"
    assert all(fault.file == name and fault.line >= 1 and len(fault.message) > 20 for fault in faults)


@pytest.mark.parametrize(("rule", "name", "text"), GOOD)
def test_leaves_alone(rule: rules.Rule, name: str, text: str):
    assert not list(rule(Source.of(text, name)))

"""Targets: their syntax, what is made from them, and the errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from aiostorm import Topology
from aiostorm.cluster.targets import Target, TargetError, import_topology, parse_target

from .conftest import JOBS, Command

MODULE = """
from aiostorm import TopologyBuilder, bolt, spout

@spout("n")
def numbers():
    yield 1

@bolt
def show(n): ...

def make(name="made", parallelism=1):
    builder = TopologyBuilder()
    builder.set_spout("numbers", numbers)
    builder.set_bolt("show", show, int(parallelism)).shuffle_grouping("numbers")
    return builder.create_topology(name)

class Holder:
    inner = make("inner")

topology = make("default")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of its own, as the current directory."""
    (tmp_path / "shop_jobs.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield tmp_path
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pkg.mod", Target("pkg.mod", module="pkg.mod")),
        ("pkg.mod:jobs", Target("pkg.mod:jobs", module="pkg.mod", attribute="jobs")),
        ("pkg.mod:a.b", Target("pkg.mod:a.b", module="pkg.mod", attribute="a.b")),
        ("mod:make()", Target("mod:make()", module="mod", attribute="make", arguments=())),
        (
            "mod:make('a:b', -1, [2, (3,)], n=None, d={'k': 1.5})",
            Target(
                "mod:make('a:b', -1, [2, (3,)], n=None, d={'k': 1.5})",
                module="mod",
                attribute="make",
                arguments=("a:b", -1, [2, (3,)]),
                keywords={"n": None, "d": {"k": 1.5}},
            ),
        ),
        ("a/b.py", Target("a/b.py", file="a/b.py")),
        ("b.py:jobs", Target("b.py:jobs", file="b.py", attribute="jobs")),
        (
            "/x y/b.py:make('c.py:d')",
            Target("/x y/b.py:make('c.py:d')", file="/x y/b.py", attribute="make", arguments=("c.py:d",)),
        ),
        ("C:\\x\\b.py:jobs", Target("C:\\x\\b.py:jobs", file="C:\\x\\b.py", attribute="jobs")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parse(text: str, expected: Target):
    assert parse_target(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is no target"),
        ("two words", "'two words' is no target"),
        ("examples/word_count:topology", "a file ends in .py: examples/word_count.py"),
        ("mod:", "after the colon stands a NAME"),
        ("mod:1 + 1", "after the colon stands a NAME"),
        ("mod:make(", "after the colon stands a NAME"),
        ("mod:make()()", "after the colon stands a NAME"),
        ("mod:make(open('x'))", "the arguments of make must be literals"),
        ("mod:make(name)", "the arguments of make must be literals"),
        ("mod:make(*['a'])", "the arguments of make must be literals"),
        ("mod:make(**{'a': 1})", "the arguments of make must be literals"),
    ],
)
def test_refuses_to_parse(text: str, message: str):
    with pytest.raises(TargetError) as caught:
        parse_target(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "arguments", "name", "tasks"),
    [
        ("shop_jobs", (), "default", 1),
        ("shop_jobs:make", (), "made", 1),
        ("shop_jobs:make", ("words", "3"), "words", 3),
        ("shop_jobs:make('literal', parallelism=2)", (), "literal", 2),
        ("shop_jobs:Holder.inner", (), "inner", 1),
        ("shop_jobs.py", (), "default", 1),
        ("./shop_jobs.py:make('in a file')", (), "in a file", 1),
    ],
)
def test_loads(place: Path, text: str, arguments: tuple[str, ...], name: str, tasks: int):
    target, topology = import_topology(text, arguments)
    assert isinstance(topology, Topology)
    assert (topology.name, topology.components["show"].parallelism) == (name, tasks)
    assert target.default_name == "shop_jobs"


def test_a_builder_is_accepted():
    assert set(import_topology(f"{JOBS}:unfinished")[1].components) == {"numbers", "double"}


def test_a_file_imports_its_neighbours_and_keeps_its_name(place: Path):
    (place / "sub").mkdir()
    (place / "sub" / "helper.py").write_text("NAME = 'from a neighbour'")
    (place / "sub" / "job.py").write_text("import helper, shop_jobs\ntopology = shop_jobs.make(helper.NAME)")
    assert import_topology("sub/job.py")[1].name == "from a neighbour"
    assert sys.modules["job"].__file__ == str(place / "sub" / "job.py") or "sub/job.py" in str(
        sys.modules["job"].__file__
    )


def test_a_file_named_like_a_module_does_not_replace_it(place: Path):
    (place / "json.py").write_text(MODULE)
    import json

    assert import_topology("./json.py")[1].name == "default"
    assert sys.modules["json"] is json


def test_parents_without_init_are_packages(place: Path):
    (place / "shop" / "deep").mkdir(parents=True)
    (place / "shop" / "deep" / "jobs.py").write_text(MODULE)
    assert import_topology("shop.deep.jobs:topology")[1].name == "default"
    with pytest.raises(TargetError, match=r"there is no module shop\.deep\.job; did you mean shop\.deep\.jobs\?"):
        import_topology("shop.deep.job")
    with pytest.raises(TargetError, match=r"there is no module shap; did you mean shop\.deep\.jobs\?"):
        import_topology("shap.deep.jobs")


ERRORS = {
    "module not found": ("shop_job", "", (), "there is no module shop_job; did you mean shop_jobs?"),
    "nothing like it": ("zzz", "", (), "there is no module zzz; it is looked for in the current directory"),
    "a module is no package": (
        "shop_jobs.make",
        "",
        (),
        "shop_jobs is a module, not a package; an attribute follows a colon",
    ),
    "file not found": ("shop_job.py", "", (), "there is no file shop_job.py; did you mean shop_jobs.py?"),
    "module raises": (
        "bad",
        "x = 1\ny = x / 0\n",
        (),
        "module bad cannot be imported: ZeroDivisionError: division by zero (bad.py, line 2)",
    ),
    "file raises": (
        "./bad.py",
        "x = 1\ny = x / 0\n",
        (),
        "./bad.py cannot be imported: ZeroDivisionError: division by zero (bad.py, line 2)",
    ),
    "a library raises": ("bad", "import json\njson.loads('{')\n", (), "(bad.py, line 2)"),
    "not Python": ("bad", "x = 1\ndef f(:\n", (), "SyntaxError: invalid syntax (bad.py, line 2)"),
    "needs a module": (
        "bad",
        "\nimport no_such_library\n",
        (),
        "ModuleNotFoundError: No module named 'no_such_library' (bad.py, line 2)",
    ),
    "module exits": (
        "bad",
        "raise SystemExit(3)",
        (),
        "it exits (SystemExit: 3) at bad.py, line 1; a program's main part belongs",
    ),
    "no attribute": ("shop_jobs:mak", "", (), "shop_jobs (shop_jobs.py) has no attribute 'mak'; did you mean make?"),
    "nothing near": (
        "shop_jobs:zzz",
        "",
        (),
        "shop_jobs (shop_jobs.py) has no attribute 'zzz'; it has the topologies topology",
    ),
    "no inner attribute": (
        "shop_jobs:Holder.iner",
        "",
        (),
        "shop_jobs (shop_jobs.py) has no attribute 'Holder.iner'; did you mean inner?",
    ),
    "not a topology": (
        "bad:x",
        "x = 'a text'",
        (),
        "bad:x is of type str: it must be a Topology, a TopologyBuilder, or a function",
    ),
    "returns nothing": ("bad:f", "def f(): pass", (), "what bad:f returned is None: it must be a Topology"),
    "a coroutine": ("bad:f", "async def f(): pass", (), "is a plain def, not async def"),
    "arguments for none": (
        "shop_jobs:topology",
        "",
        ("a",),
        "shop_jobs:topology is a Topology, not a function: it takes no arguments",
    ),
    "a call of none": (
        "shop_jobs:topology()",
        "",
        (),
        "shop_jobs:topology is a Topology, not a function: it takes no arguments",
    ),
    "arguments twice": (
        "shop_jobs:make('a')",
        "",
        ("b",),
        "has its arguments in parentheses; 'b' cannot be given as well",
    ),
    "too many": (
        "shop_jobs:make",
        "",
        ("a", "1", "c"),
        "(name='made', parallelism=1) cannot be called like that: too many positional arguments",
    ),
    "wrong name": (
        "shop_jobs:make(nam='a')",
        "",
        (),
        "cannot be called like that: got an unexpected keyword argument 'nam'",
    ),
    "factory raises": (
        "shop_jobs:make",
        "",
        ("a", "many"),
        "makes no topology: ValueError: invalid literal for int() with base 10: 'many' (shop_jobs.py, line 14)",
    ),
    "factory exits": (
        "bad:f",
        "import sys\ndef f():\n    sys.exit('bye')",
        (),
        "bad:f makes no topology: it exits (SystemExit: bye) at bad.py, line 3",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_wrong_target_is_an_error_with_the_reason(place: Path, aiostorm: Command, case: str):
    text, source, arguments, message = ERRORS[case]
    if source:
        (place / "bad.py").write_text(source)
    outcome = aiostorm("graph", text, *arguments)
    assert message in outcome.err
    assert outcome.err.startswith("Error: ")
    assert "Traceback" not in outcome.err
    assert (outcome.code, outcome.out) == (2, "")


def test_all_mistakes_of_a_topology_are_shown(place: Path, aiostorm: Command):
    (place / "bad.py").write_text(
        "from aiostorm import TopologyBuilder\n"
        "from shop_jobs import numbers, show\n"
        "builder = TopologyBuilder()\n"
        "builder.set_spout('numbers', numbers, 0)\n"
        "builder.set_bolt('show', show).shuffle_grouping('numbrs')\n"
        "def make(): return builder.create_topology()\n"
    )
    for text in ("bad:builder", "bad:make"):
        outcome = aiostorm("run", text)
        assert outcome.code == 2
        assert "2 mistakes" in outcome.err
        assert "parallelism must be at least 1" in outcome.err
        assert "did you mean 'numbers'?" in outcome.err


def test_debug_shows_the_traceback(place: Path, aiostorm: Command):
    (place / "bad.py").write_text("1 / 0")
    outcome = aiostorm("run", "bad", "--debug")
    assert outcome.code == 2
    assert "Traceback" in outcome.err
    assert outcome.err.count("ZeroDivisionError: division by zero") >= 2

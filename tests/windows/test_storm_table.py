"""docs/notes/window-scenarios.md has the table of all scenarios, each of which names where it is from."""

from __future__ import annotations

from .scenarios import PAGE, SOURCES, TITLE, WRITE, marked, section, written


def test_the_page_lists_the_scenarios() -> None:
    assert section() in PAGE.read_text(encoding="utf-8"), f"{PAGE.name}: made from the tests; run {WRITE}"


def test_the_table_has_enough_rows() -> None:
    assert len(list(marked())) >= 24


def test_names_are_different_and_sources_known() -> None:
    every = [test.scenario for _, _, test in marked()]
    names = [one.name for one in every]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    assert {one.source.partition("#")[0] for one in every} == set(SOURCES), "SOURCES lists the files that are used"
    assert list(SOURCES) == sorted(SOURCES, key=str.lower)
    for one in every:
        assert one.source.partition("#")[2], f"{one.source}: name the test, after a #"
        assert bool(one.ours) == bool(one.why), f"{one.name}: what we say is something else: say why"
        assert "|" not in "".join((one.name, one.theirs, one.ours, one.why)), "a bar would end the cell of the table"


def test_only_its_part_of_the_page_is_written() -> None:
    assert written("# W\n\nText.\n") == f"# W\n\nText.\n\n{section()}"
    assert written(f"# W\n\n{TITLE}\n\nold\n\n## Next\n\nText.\n") == f"# W\n\n{section()}\n## Next\n\nText.\n"
    assert written(written("# W\n")) == written("# W\n")

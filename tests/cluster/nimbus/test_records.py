"""Records: what is written is read again, other versions are read, and what is no record is refused with its place."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiostorm.cluster.coordination import MAX_VALUE_BYTES
from aiostorm.cluster.coordination.operations import checked_path
from aiostorm.cluster.names import check_name
from aiostorm.cluster.nimbus import (
    ASSIGNMENTS,
    PARENTS,
    SUPERVISORS,
    TOPOLOGIES,
    AssignmentRecord,
    ClusterRecord,
    ErrorEntry,
    ErrorsRecord,
    ParentRecord,
    RecordError,
    SupervisorRecord,
    TopologyRecord,
    name_in,
    pack,
    path_of,
    unpack,
)

words = st.text(max_size=8)
records = st.one_of(
    st.builds(
        TopologyRecord,
        words,
        st.lists(words, max_size=3).map(tuple),
        words,
        st.dictionaries(words, st.one_of(words, st.integers(), st.booleans(), st.none()), max_size=3),
        st.integers(1, 99),
        st.booleans(),
        st.frozensets(words),
        st.sampled_from(("ACTIVE", "INACTIVE", "KILLED")),
    ),
    st.builds(SupervisorRecord, words, words, st.integers(0, 9), words, st.frozensets(words), words),
    st.builds(AssignmentRecord, st.integers(1, 9), words, st.lists(words).map(tuple)),
    st.builds(
        ParentRecord, words, st.integers(1, 9), st.integers(0, 9), words, words, words, st.lists(words).map(tuple)
    ),
    st.builds(ErrorsRecord, st.lists(st.builds(ErrorEntry, st.floats(0, 2e9), words, words), max_size=3).map(tuple)),
    st.builds(ClusterRecord, words),
)


@given(records)
def test_what_is_written_is_read(record: object) -> None:
    assert unpack(type(record), "/a", pack(record)) == record


def test_what_it_looks_like() -> None:
    record = TopologyRecord("words:topology", workers=3, config={"topology.max.spout.pending": 100})
    value = b'{"target":"words:topology","config":{"topology.max.spout.pending":100},"workers":3}'
    assert pack(record) == value
    assert (TOPOLOGIES, ASSIGNMENTS, SUPERVISORS, PARENTS) == (
        "/topologies",
        "/assignments",
        "/supervisors",
        "/parents",
    )


def test_a_setting_keeps_its_type() -> None:
    config = {"a": True, "b": False, "c": 1, "d": 0, "e": 1.0, "f": 1.5, "g": "1", "h": None}
    value = pack(TopologyRecord("m:t", config=config))
    assert b'{"a":true,"b":false,"c":1,"d":0,"e":1.0,"f":1.5,"g":"1","h":null}' in value
    read = unpack(TopologyRecord, "/x", value).config
    assert {key: type(each) for key, each in read.items()} == {key: type(each) for key, each in config.items()}


def test_a_field_of_a_later_version_is_ignored() -> None:
    assert unpack(AssignmentRecord, "/a", b'{"generation":1,"parent":"s","workers":["s"],"priority":7}') == (
        AssignmentRecord(1, "s", ("s",))
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"", "value: Invalid JSON"),
        (b"[]", "value: Input should be an object"),
        (b'{"generation":1,"parent":"s"}', "workers: Field required"),
        (b'{"generation":"x","parent":"s","workers":[]}', "generation: Input should be a valid integer"),
        (b"\xff", "value: Invalid JSON"),
    ],
)
def test_what_is_no_record(value: bytes, says: str) -> None:
    with pytest.raises(RecordError) as caught:
        unpack(AssignmentRecord, "/assignments/words", value)
    assert str(caught.value).startswith(f"/assignments/words holds no AssignmentRecord: {says}")


def test_an_unknown_state_is_not_guessed() -> None:
    with pytest.raises(RecordError, match="wanted: Input should be 'ACTIVE', 'INACTIVE' or 'KILLED'"):
        unpack(TopologyRecord, "/topologies/x", b'{"target":"a:b","wanted":"PAUSED"}')


def test_a_record_fits_into_a_node() -> None:
    fits = TopologyRecord("a:b", config={"x": "y" * (MAX_VALUE_BYTES - 34)})
    assert len(pack(fits)) == MAX_VALUE_BYTES
    with pytest.raises(RecordError, match=r"the TopologyRecord has 65,537 bytes, and may have 65,536"):
        pack(TopologyRecord("a:b", config={"x": "y" * (MAX_VALUE_BYTES - 33)}))


@given(st.text(min_size=1, max_size=30))
def test_names_in_paths(name: str) -> None:
    try:
        check_name(name)
    except ValueError:
        with pytest.raises(ValueError, match="a topology's name is"):
            path_of(TOPOLOGIES, name)
        return
    if len(quote(name, safe="")) > 200:
        with pytest.raises(ValueError, match="choose a shorter one"):
            path_of(TOPOLOGIES, name)
        return
    path = path_of(TOPOLOGIES, name)
    assert checked_path(path) == path
    assert name_in(path.removeprefix("/topologies/")) == name


def test_a_name_that_is_too_long_for_a_path() -> None:
    assert path_of(TOPOLOGIES, "x" * 128) == "/topologies/" + "x" * 128
    assert len(path_of(TOPOLOGIES, "ä" * 33)) == len("/topologies/") + 198
    with pytest.raises(ValueError, match=r"has 204 characters when it is written with .* and may have 200"):
        path_of(TOPOLOGIES, "ä" * 34)

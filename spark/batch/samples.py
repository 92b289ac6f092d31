"""Batch samples: compares one chunk of each finished partition with an earlier run, by computing it again.

    samples (partition → digest of its first chunk) ─► a job: mapInArrow(sampler) ─► the same, or an error

For data without a known identity (data_identity.py). Spark computes only as much of a partition as its first chunk
needs; after a shuffle or a sort that is the whole job before it. It blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..errors import SparkSourceError
from ..executors.by_value import register_by_value
from .pushing import MODULES, sampler
from .runs import Runs

if TYPE_CHECKING:
    from .source import OpenedSource


def compare_samples(opened: OpenedSource, samples: Mapping[int, int], title: str) -> None:
    """Raise SparkSourceError if the first chunk of a partition differs; also raises Spark's errors."""
    wanted = Runs()
    for partition in samples:
        wanted.add(partition)
    register_by_value(*MODULES)
    function = sampler(list(wanted.pairs()), opened.schema.serialize().to_pybytes(), opened.chunk_rows)
    if opened.fetching is not None:
        rows = opened.fetching.run(sorted(samples), function, opened.schema)
    else:
        rows = opened.frame.mapInArrow(function, "partition int, digest string").collect()
    found = {row["partition"]: int(row["digest"], 16) for row in rows}
    for partition, digest in sorted(samples.items()):
        if found.get(partition, 0) != digest:
            raise SparkSourceError(
                f"{title}: partition {partition} was finished by an earlier run, and its first chunk is different now: "
                "it is other data, or Spark computes its rows in another order. Give each day's data a progress folder "
                "of its own (or remove this one to begin anew), and sort what is behind a shuffle"
            )

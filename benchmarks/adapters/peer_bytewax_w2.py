"""bytewax does W2: two processes of a cluster, one worker thread in each, a half of the sentences for each.

`flat_map_batch` splits and makes the pairs of word and one, a `stateful_batch` counts: the fastest in one process (see
peer_bytewax.py). The words go to the process that their key belongs to. Nothing is guaranteed.

    python -m benchmarks.adapters.peer_bytewax_w2 PROCESS ADDRESSES SIZE      one of the two; it prints JSON at its end

Timed from the first batch that either source gives until the later of the two flows has ended.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

from ..cells import Outcome, WrongResultError
from ..clocking import Stopwatch
from ..w1 import corpus
from .peer_bytewax import BATCH, Counter, split

PROCESSES = 2
LIMIT_S = 240


class Half(StatelessSourcePartition[str]):
    """Every second sentence, a batch at a time."""

    def __init__(self, sentences: list[str], began_s: list[float]) -> None:
        self.sentences, self.began_s, self.at = sentences, began_s, 0

    def next_batch(self) -> list[str]:
        if not self.at:
            self.began_s.append(time.monotonic())
        batch = self.sentences[self.at : self.at + BATCH]
        if not batch:
            raise StopIteration
        self.at += BATCH
        return batch


class Sentences(DynamicSource[str]):
    """A half for each worker."""

    def __init__(self, sentences: list[str]) -> None:
        self.sentences = sentences
        self.began_s: list[float] = []

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Half:
        return Half(self.sentences[worker_index::worker_count], self.began_s)


class Kept(StatelessSinkPartition[Any]):
    """Keeps what comes."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def write_batch(self, items: list[Any]) -> None:
        self.items += items


class Keep(DynamicSink[Any]):
    """One list for each process."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Kept:
        return Kept(self.items)


def word_count(size: int) -> Outcome:
    """One run."""
    given = corpus(size)
    said = _both(size)
    counts: dict[str, int] = {}
    for one in said:
        if counts.keys() & one["counts"].keys():
            raise WrongResultError("a word was counted in both processes")
        counts.update(one["counts"])
    given.check(counts)
    watch = Stopwatch()
    watch.wall_s = max(one["ended_s"] for one in said) - min(one["began_s"] for one in said)
    watch.cpu_s = sum(one["cpu_s"] for one in said)
    return given.outcome(watch)


def _both(size: int) -> list[dict[str, Any]]:
    """What the two processes say at their end. (Before that they may say that they try to connect.)"""
    addresses = [f"127.0.0.1:{port}" for port in _free_ports()]
    commands = [
        [sys.executable, "-m", __spec__.name, str(process), ",".join(addresses), str(size)]
        for process in range(PROCESSES)
    ]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    try:
        said = [process.communicate(timeout=LIMIT_S)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    return [json.loads(one.splitlines()[-1]) for one in said]


def _free_ports() -> Iterable[int]:
    sockets = [socket.socket() for _ in range(PROCESSES)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def main(process: int, addresses: list[str], size: int) -> None:
    """One of the processes."""
    source, sink = Sentences(corpus(size).sentences), Keep()
    flow = Dataflow("w2")
    sentences = op.input("sentences", flow, source)
    op.output("counts", op.stateful_batch("count", op.flat_map_batch("split", sentences, split), Counter), sink)
    cpu_s = time.process_time()
    cluster_main(flow, addresses, process)
    ended_s = time.monotonic()
    print(
        json.dumps(
            {
                "counts": dict(sink.items),
                "began_s": min(source.began_s),
                "ended_s": ended_s,
                "cpu_s": time.process_time() - cpu_s,
            }
        ),
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2].split(","), int(sys.argv[3]))

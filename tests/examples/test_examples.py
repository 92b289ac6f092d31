"""Each example runs as its docstring says, in a process of its own, and says what it promises."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.sockets


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Warnings are errors there, too."""
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=cwd, capture_output=True, text=True, timeout=60
    )


SAID = {
    "actors_ping": [
        "three pings: ['pong 1', 'pong 2', 'pong 3']",
        "/referee/player: RuntimeError('a broken racket'), so: restart",
        "after a restart: pong 1",
        "/referee/player has ended, in order",
        "the system has ended, and everything in it",
    ],
    "actors_two_processes": [
        "words so far: 6",
        "received: 10 words",
        "and now: 14",
        "//counting/counter has ended: counting is lost: it was killed",
    ],
    "embed_asyncio": ["cellar    14.5", "kitchen   24.5", "roof       9.5", "readings processed: 300"],
    "embed_aiohttp": ["POST /lines 204", "GET /top 200 [['be', 2], ['to', 2], ['or', 1], ['not', 1]]"],
    "columns": [
        "524288 payments in 64 batches, all acked",
        "5243 large ones by 97 users; tasks that counted: 4",
        "the largest: 999",
    ],
    "failures": [
        "apples: done",
        "bread: done",
        "milk: done",
        "fragile: done",
        "gold: given up after 2 attempts, the last in process[2]: out of stock",
        "dead letter: gold (failed: out of stock, 2 attempts)",
        "lost letter: given up after 2 attempts, the last by timeout",
        "dead letter: lost letter (timeout, 2 attempts)",
        "4 acked, 5 failures, 3 replayed, 2 dead-lettered",
    ],
}


def test_every_example_is_tried():
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert names == {*SAID, "shared_database", "sliding_top_words", "slow_database", "spark_flights", "word_count"}
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/*.py")}
    assert folders == {"ssh_brute_force"}, "which has tests of its own: tests/docs/test_guides.py runs them"


@pytest.mark.parametrize("name", SAID)
def test_example(name: str):
    done = run("-m", f"examples.{name}")
    assert (done.returncode, done.stderr) == (0, "")
    said = done.stdout.splitlines()
    if name == "embed_aiohttp":  # words that are equally frequent have no order
        said[1] = said[1].replace("[['to', 2], ['be', 2]", "[['be', 2], ['to', 2]")
        said[1] = said[1].replace("['not', 1], ['or', 1]]", "['or', 1], ['not', 1]]")
    assert sorted(said) == sorted(SAID[name])


@pytest.mark.slow
def test_slow_database_is_paced_at_its_rate() -> None:
    done = run("-m", "aiostorm", "run", "examples.slow_database:topology", "--json", "-q")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["messages"]["acked"] == 2_500
    kinds = [event["kind"] for event in said["backpressure"]["events"]]
    assert kinds[:3] == ["BLOCKED", "THROTTLED", "SLOWED"]


def test_word_count_by_the_command(tmp_path: Path):
    (tmp_path / "text.md").write_text("to be or not to be\n")
    done = run("-m", "aiostorm", "run", "examples.word_count:topology", str(tmp_path / "*.md"), "--json", "-q")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert document["summary"]["words"] == 6
    assert document["messages"]["acked"] == 1
    assert [document["components"][name]["tasks"] for name in ("lines", "split", "count")] == [1, 2, 4]


def test_word_count_by_its_file_from_elsewhere(tmp_path: Path):
    (tmp_path / "text.md").write_text("to be or not to be\n")
    done = run("-m", "aiostorm", "run", str(ROOT / "examples" / "word_count.py"), "text.md", "-q", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "words               6\n" in done.stdout
    done = run("-m", "aiostorm", "run", str(ROOT / "examples" / "word_count.py"), "text.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "FileNotFoundError: 'text.txt' matches no file" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no SIGINT to one process")
def test_aiohttp_example_serves_until_it_is_interrupted():
    command = [sys.executable, "-u", "-W", "error", "-m", "examples.embed_aiohttp", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "Running on http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")

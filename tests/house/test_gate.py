"""The gate: its stages are the scripts that there are, and it ends what it started."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from .source import ROOT, files, pyproject, read


def test_every_stage_is_run_and_says_what_it_is():
    gate = read(".ci/run")
    listed = re.search(r"^stages=\((.*)\)$", gate, re.MULTILINE)
    assert listed is not None
    background = re.findall(r"^ *stage ([a-z-]+) &$", gate, re.MULTILINE)
    run = [*listed[1].split(), *background]
    scripts = [name for name in files() if name.startswith(".ci/stages/")]
    assert sorted(f".ci/stages/{name}.sh" for name in run) == sorted(scripts)
    [table] = re.findall(r'for name in "\$\{stages\[@\]\}" ([a-z -]+); do', gate)
    assert sorted(table.split()) == sorted(background), "the table at the end has them all"
    for name in scripts:
        assert read(name).startswith("# "), f"{name}: its first line says what it checks"
        assert 'source "$(dirname "$0")/../lib.sh"' in read(name), f"{name}: lib.sh ends it at the first failure"


def test_every_slow_test_and_every_test_with_spark_runs_in_one_stage():
    """The README's command leaves out the slow tests, and skips those with Spark: they have stages of their own."""
    addopts = pyproject()["tool"]["pytest"]["ini_options"]["addopts"]
    [readme] = [word.removeprefix("-m=") for word in addopts if word.startswith("-m")]
    selected = {"tests": f"{readme} and not spark"}
    for stage in ("slow", "spark"):
        [selected[stage]] = re.findall(r"pytest -q .*-m '?([a-z ]+)'?$", read(f".ci/stages/{stage}.sh"), re.MULTILINE)
    for slow, spark in itertools.product((False, True), repeat=2):
        marks = [mark for mark, is_set in (("slow", slow), ("spark", spark)) if is_set]
        runs = [stage for stage, expression in selected.items() if selects(expression, marks)]
        assert len(runs) == 1, f"marked {marks}: run by {runs or 'no stage'}"


def selects(expression: str, marks: list[str]) -> bool:
    """As pytest's -m, for "a and not b"."""
    terms = expression.split(" and ")
    return all((term.removeprefix("not ") in marks) is not term.startswith("not ") for term in terms)


def bounded(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / ".ci/bounded.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_bounded_program_ends_with_its_own_exit_code():
    assert bounded("10", sys.executable, "-c", "raise SystemExit(3)").returncode == 3


def test_a_program_is_killed_at_the_bound_and_what_it_started_with_it(tmp_path: Path):
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    done = bounded("2", sys.executable, "-c", starts)
    assert done.returncode == 124
    assert "killed after 2 s" in done.stderr
    assert ended(int((tmp_path / "pid").read_text()))


def test_a_program_receives_ctrl_c_also_if_the_gate_does_not():
    program = "import signal; raise SystemExit(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    words = [sys.executable, str(ROOT / ".ci/bounded.py"), "10", sys.executable, "-c", program]
    gate = f"import signal, subprocess; signal.signal(2, signal.SIG_IGN); raise SystemExit(subprocess.call({words!r}))"
    assert subprocess.run([sys.executable, "-c", gate], check=False).returncode == 1


def test_a_program_is_killed_when_the_gate_is(tmp_path: Path):
    child = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    command = [sys.executable, str(ROOT / ".ci/bounded.py"), "60", sys.executable, "-c", child]
    gate = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({command!r})"])
    deadline_s = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    gate.kill()
    gate.wait()
    assert ended(int((tmp_path / "pid").read_text()))


def ended(pid: int) -> bool:
    """Within 10 s."""
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if _is_zombie(pid):
            return True
        time.sleep(0.05)
    return False


def _is_zombie(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return False

"""The `aiostorm` command.

app.py is the command group: `run`, `check`, `config`, `doctor` and the options that they share. Other commands are
modules of their own: certs, control_command (`pressure`, `update`), demo_command, worker_command. What a command does
when it runs is loaded then, so that `--help` is quick: run.py and worker.py start topologies and workers, control.py
asks running topologies, demo.py is the topology of `aiostorm demo`, spark.py needs PySpark. progress.py, report.py and
pressure.py are what is printed; errors.py and signals.py are what every command does about mistakes and about Ctrl-C.
"""

from .app import cli, main

__all__ = [
    "cli",
    "main",
]

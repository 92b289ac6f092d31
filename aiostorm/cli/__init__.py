"""The `aiostorm` command.

app.py has the table of commands. Each command is a module, NAME_command.py, that is imported when the command is used;
its program is imported when it runs, so that `--help` is quick: run.py and worker.py start topologies and workers,
control.py sends requests to running topologies, demo.py is the topology of `aiostorm demo`, doctor.py checks the
machine, spark.py needs PySpark. options.py, importing.py and logs.py are shared by commands. progress.py, report.py and
pressure.py print the output; errors.py and signals.py handle mistakes of the user and Ctrl-C.
"""

from .app import cli, main

__all__ = [
    "cli",
    "main",
]

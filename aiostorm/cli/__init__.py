"""The `aiostorm` command.

app.py is the table of commands. Each command is a module of its own, NAME_command.py, that is imported when the command
is asked for; what it does when it runs is loaded then, so that `--help` is quick: run.py and worker.py start topologies
and workers, control.py asks running topologies, demo.py is the topology of `aiostorm demo`, doctor.py looks at the
machine, spark.py needs PySpark. options.py, loading.py and logs.py are what commands share. progress.py, report.py and
pressure.py are what is printed; errors.py and signals.py are what every command does about mistakes and about Ctrl-C.
"""

from .app import cli, main

__all__ = [
    "cli",
    "main",
]

"""Workers of a topology in Spark tasks, one in each slot.

backend.py is what users give to a cluster: slot_session.py is its session, executor_access.py says how executors of
other machines reach it. spawner.py starts a worker by a job of one task (jobs.py) with a launch_spec.py; slot.py is the
program in that task, messages.py its messages with the parent. code.py ships aiostorm to machines where it is not
installed. driver_worker.py is the one worker in the parent's own process, for components that need its Spark session.
"""

from __future__ import annotations

__all__: list[str] = []  # aiostorm.spark has the public names

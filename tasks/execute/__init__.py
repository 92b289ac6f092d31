"""How the rows of a bolt are executed: one executor for each kind of bolt.

choice.py has the table of executors, and picks one by what the component defines. base.py is what they have in common;
basic_executor.py, batch_executor.py and rich_executor.py are for plain bolts, function_executor.py is for `@bolt`
functions, arrow_executor.py for columns. Bolts with windows have window_executor.py (incremental aggregates) or
buffered_executor.py (rows kept until the window has fired); windowing.py picks between them, window_results.py converts
their results to rows.
"""

from .base import Executor, RowFailedError, Tools, without_waiting
from .batch_executor import BatchExecutor
from .choice import Rewire, choose_executor
from .windowing import make_keeper, pass_through_driver, window_executor

__all__ = [
    "BatchExecutor",
    "Executor",
    "Rewire",
    "RowFailedError",
    "Tools",
    "choose_executor",
    "make_keeper",
    "pass_through_driver",
    "window_executor",
    "without_waiting",
]

"""How the rows of a bolt are executed: one executor for each kind of bolt.

choice.py picks the executor by what the component defines. executors.py has the three for plain bolts (basic, batch,
rich), function_executor.py the one for `@bolt` functions, arrow_executor.py the one for columns. Bolts with windows
have window_executor.py (incremental aggregates) or buffered_executor.py (rows kept until the window has fired);
windowing.py picks between them, window_results.py converts their results to rows.
"""

from .choice import Rewire, Tools, choose_executor
from .executors import BatchExecutor, Executor, RowFailedError, without_waiting
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

"""Session settings: merges the settings that several components request, before anything is started.

    --spark, --spark-conf (or AIOSTORM_SPARK_CONF) ──wins over──► session= of components ──wins over──► our defaults

1. Settings of the command line win, key by key; components that requested other values are named in the log.
2. Two components that request different values of a setting that cannot change while Spark runs are refused.
3. Worker processes read AIOSTORM_SPARK_CONF from their environment, so it holds in each of them. It is a JSON object,
   and not for secrets: environments can be read by others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .errors import SparkUnavailableError

VARIABLE: Final = "AIOSTORM_SPARK_CONF"
_WHILE_IT_RUNS: Final = "spark.sql."
"""Most settings with this prefix can change while Spark runs; a session refuses the others at once."""


def overriding_settings() -> dict[str, str]:
    """The settings that win in this process. SparkUnavailableError if the variable is no JSON object of texts."""
    text = os.environ.get(VARIABLE)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise SparkUnavailableError(f'{VARIABLE} is a JSON object of texts, as {{"spark.driver.memory": "4g"}}')
    return found


def override_settings(settings: Mapping[str, str]) -> None:
    """Let these settings win, in this process and in those that it starts."""
    if settings:
        os.environ[VARIABLE] = json.dumps({**overriding_settings(), **settings})


def merged_settings(asked: Iterable[tuple[str, Any]], wins: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Merge (component, its session=) into one set; also says which were overruled. SparkUnavailableError."""
    found: dict[str, tuple[str, str]] = {}
    overruled = []
    for component, source in asked:
        for key, value in source.items() if isinstance(source, Mapping) else ():
            text = text_of(value)
            if key in wins:
                if wins[key] != text:
                    overruled.append(f"{key}={wins[key]} wins over {key}={text} of {component!r}")
                continue
            other, said = found.setdefault(key, (component, text))
            if said != text and not key.startswith(_WHILE_IT_RUNS):
                raise SparkUnavailableError(
                    f"{other!r} wants {key}={said}, and {component!r} {key}={text}: a process has one Spark; give both "
                    f"the same settings, or say which wins: --spark-conf {key}=…"
                )
    return {key: text for key, (_, text) in found.items()}, overruled


def text_of(value: Any) -> str:
    """A setting in Spark's notation."""
    return str(value).lower() if isinstance(value, bool) else str(value)

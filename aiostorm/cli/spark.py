"""`aiostorm run --spark MASTER`: the topology's workers run in Spark tasks. See docs/spark.md."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cluster import TargetError
from ..spark import SparkWorkers, merged_settings, override_settings
from .run import WorkerPlan

if TYPE_CHECKING:
    from ..topology import Topology

log = logging.getLogger("aiostorm.cli")


def spark_worker_plan(
    target: str,
    arguments: tuple[str, ...],
    master: str,
    slots: int,
    settings: Mapping[str, str],
    py_files: Sequence[str],
    listen: str,
    loop: str,
    log_level: str,
    *,
    ship: bool,
    **security: Any,
) -> WorkerPlan:
    """The workers on Spark executors. TargetError, CredentialsError."""
    if any(security[key] for key in ("token_file", "tls_cert", "tls_key", "tls_ca")):
        raise TargetError("--spark needs --credentials DIR, at the same path on every machine, not single files")
    files = list(py_files)
    where, colon, attribute = target.partition(".py:")
    file = Path(f"{where}.py" if colon else target)
    if not SparkWorkers.is_local(master) and file.suffix == ".py":
        files.append(str(file))  # other machines do not have it at this path
        target = f"{file.stem}:{attribute}" if colon else file.stem
    backend = SparkWorkers(
        {"spark.app.name": f"aiostorm run {target}", **settings, "spark.master": master},
        slots,
        listen=listen,
        credentials=security["directory"] or "",
        insecure=security["insecure"],
        py_files=files,
        ship=ship,
        arguments=("--loop", loop, "--log-level", log_level),
    )
    return WorkerPlan(target, arguments, slots, 0, backend, _print_nothing, backend.abandon)


def spark_settings_of(topology: Topology, master: str, conf: Sequence[str]) -> dict[str, str]:
    """The settings of a new session: the command line overrides components. TargetError, SparkUnavailableError.

    Nothing has been started when it raises.
    """
    wins = dict(map(_setting, conf))
    if master:
        if wins.get("spark.master", master) != master:
            raise TargetError(f"--spark {master} and --spark-conf spark.master={wins['spark.master']}: remove one")
        wins["spark.master"] = master
    sources = ((spec.id, getattr(spec.template, "spark_session", None)) for spec in topology.components.values())
    settings, overruled = merged_settings(sources, wins)
    for text in overruled:
        log.info("%s", text)
    override_settings(wins)
    return {**settings, **wins}


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise TargetError(f"--spark-conf {text}: expected spark.KEY=VALUE, as in spark.executor.memory=2g")
    return key, value


def _print_nothing(address: str, names: Sequence[str]) -> None:
    """No worker is started by hand."""

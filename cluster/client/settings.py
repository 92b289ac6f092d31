"""Settings: those of a submission, as the record of a topology holds them: by key, each value a scalar. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...topology import Config, ConfigError

if TYPE_CHECKING:
    from ..nimbus import TopologyRecord

Scalar = str | int | float | bool | None


def recorded(conf: Config | Mapping[str, Any] | None) -> dict[str, Scalar]:
    """What is set, by Storm's keys; a list becomes text with commas. ConfigError if it is no setting or no scalar."""
    config = conf if isinstance(conf, Config) else Config(**(conf or {}))
    found: dict[str, Scalar] = {}
    for field in sorted(config.model_fields_set):
        found[_key(field)] = _scalar(field, config.get(field))
    for key, value in config.user.items():
        found[key] = _scalar(key, value)
    return found


def changed(record: TopologyRecord, given: Config | Mapping[str, Any]) -> dict[str, Scalar]:
    """Which settings of a topology that runs an update changes, by key.

    ConfigError for what cannot be changed then, or not to this value as far as the record says; its parent, which has
    the topology, may refuse more.
    """
    settings = recorded(given)
    holds = {**record.config, **record.updates}
    Config().merge(holds).updated(settings)
    return {key: value for key, value in settings.items() if key not in holds or holds[key] != value}


def _key(field: str) -> str:
    """The key of a field."""
    extra = Config.model_fields[field].json_schema_extra
    keys = extra.get("keys") if isinstance(extra, dict) else None
    return str(keys[0]) if isinstance(keys, list) and keys else field


def _scalar(key: str, value: Any) -> Scalar:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, tuple | list) and all(isinstance(each, str | int | float) for each in value):
        texts = [str(each) for each in value]
        if not any("," in text for text in texts):
            return ",".join(texts)
    raise ConfigError(
        f"{key}: {value!r:.100} cannot be given when a topology is submitted, only text, numbers, flags and lists of "
        "them: set it in the code of the topology"
    )

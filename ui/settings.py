"""Settings: the configuration of a topology for the page: each value with its source. Secrets are not shown."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ..topology import UPDATABLE, Config, shown_setting
from .model import SettingRow, Settings


def settings_of(config: Config) -> Settings:
    """Every setting, those of the user last."""
    rows = []
    for name, field in Config.model_fields.items():
        extra: Any = field.json_schema_extra
        keys = extra.get("keys") if isinstance(extra, dict) else None
        key = str(keys[0]) if isinstance(keys, list) and keys else name
        default = shown_setting(name, field.get_default(call_default_factory=True))
        value = shown_setting(name, getattr(config, name))
        help_text = field.description or ""
        rows.append(SettingRow(name, key, value, default, config.source_of(name), help_text, name in UPDATABLE))
    rows += [
        SettingRow(name, name, shown_setting(name, value), "", config.source_of(name), "", False)
        for name, value in config.user.items()
    ]
    return Settings(tag_of(config), tuple(rows))


def tag_of(config: Config) -> str:
    """Differs when a value differs that can be changed while the topology runs."""
    text = json.dumps([(name, getattr(config, name)) for name in sorted(UPDATABLE)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]

"""Settings: the configuration of a topology for the page: each value with its source. Secrets are not shown.

A value is hidden if the name of its setting says that it is a secret, and the user and password of a URL always are.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

from ..topology import UPDATABLE, Config
from .model import SettingRow, Settings

HIDDEN: Final = "***"

_SECRET: Final = re.compile(
    r"pass(word|wd|phrase)?|secret|token|credential|api.?key|private.?key|access.?key", re.IGNORECASE
)
_IN_URL: Final = re.compile(r"(?<=://)[^/@\s\"]+(?=@)")


def settings_of(config: Config) -> Settings:
    """Every setting, those of the user last."""
    rows = []
    for name, field in Config.model_fields.items():
        extra: Any = field.json_schema_extra
        keys = extra.get("keys") if isinstance(extra, dict) else None
        key = str(keys[0]) if isinstance(keys, list) and keys else name
        default = _text(name, field.get_default(call_default_factory=True))
        value = _text(name, getattr(config, name))
        help_text = field.description or ""
        rows.append(SettingRow(name, key, value, default, config.source_of(name), help_text, name in UPDATABLE))
    rows += [
        SettingRow(name, name, _text(name, value), "", config.source_of(name), "", False)
        for name, value in config.user.items()
    ]
    return Settings(tag_of(config), tuple(rows))


def tag_of(config: Config) -> str:
    """Differs when a value differs that can be changed while the topology runs."""
    text = json.dumps([(name, getattr(config, name)) for name in sorted(UPDATABLE)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _text(name: str, value: Any) -> str:
    if value is not None and _SECRET.search(name):
        return HIDDEN
    return _IN_URL.sub(HIDDEN, json.dumps(value, default=str, ensure_ascii=False))

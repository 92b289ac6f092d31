"""Shown settings: a value as JSON, without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiostorm.topology import shown_setting, shown_value
from aiostorm.topology.shown_settings import HIDDEN


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (None, "null"),
        (True, "true"),
        ("Zürich", '"Zürich"'),
        ([1, "a"], '[1, "a"]'),
        (Path("a.txt"), '"a.txt"'),
        ("http://host/a@b", '"http://host/a@b"'),
        ("amqp://me:c4nary@host/v", f'"amqp://{HIDDEN}@host/v"'),
        ("amqp://me:c4n@ry@host/v@1", f'"amqp://{HIDDEN}@host/v@1"'),
        ('amqp://me:c4n"ry\\@host', f'"amqp://{HIDDEN}@host"'),
        (["x://c4nary@a", "y://b"], f'["x://{HIDDEN}@a", "y://b"]'),
    ],
)
def test_values(value: object, text: str) -> None:
    assert shown_setting("my.setting", value) == text


@pytest.mark.parametrize(
    "name", ["db.password", "passwd", "PassPhrase", "pass", "my.SECRET", "tokens", "credentials", "apiKey", "api_key"]
)
def test_secrets_are_hidden_if_they_are_set(name: str) -> None:
    assert shown_setting(name, "c4nary") == shown_setting(name, ["c4nary"]) == shown_setting(name, "") == HIDDEN
    assert shown_setting(name, None) == "null"


@pytest.mark.parametrize("name", ["private-key", "access_key", "s3.access.key", "private_key_file"])
def test_so_are_keys(name: str) -> None:
    assert shown_setting(name, "c4nary") == HIDDEN
    assert shown_setting("key", "a") == '"a"'


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("topology.workers", 3, 3),
        ("db.host", "a=b", "a=b"),
        ("db.password", "c4nary", HIDDEN),
        ("db.url", "amqp://me:c4nary@host/v", f"amqp://{HIDDEN}@host/v"),
        ("db.password", None, None),
        ("arguments", "API_KEY=c4nary", f"API_KEY={HIDDEN}"),
        ("arguments", "--password=c4n=ary", f"--password={HIDDEN}"),
        ("arguments", "amqp://me:c4=nary@host", f"amqp://{HIDDEN}@host"),
        ("arguments", "url=amqp://me:c4nary@host", f"url=amqp://{HIDDEN}@host"),
        ("secrets", ["c4nary"], HIDDEN),
    ],
)
def test_a_value_is_shown_as_it_is_or_without_its_secret(name: str, value: object, shown: object) -> None:
    assert shown_value(name, value) == shown

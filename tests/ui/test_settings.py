"""Settings: where they are from; and secrets are hidden."""

from __future__ import annotations

import pytest

from aiostorm import Config
from aiostorm.topology import UPDATABLE
from aiostorm.topology.shown_settings import HIDDEN
from aiostorm.ui.settings import settings_of, tag_of


def test_every_setting_has_its_source_and_key():
    rows = {row.name: row for row in settings_of(Config(max_spout_pending=5)).settings}
    assert set(rows) == set(Config.model_fields)
    assert (rows["max_spout_pending"].value, rows["max_spout_pending"].default) == ("5", "null")
    assert rows["max_spout_pending"].key == "topology.max.spout.pending"
    assert rows["max_spout_pending"].source == "keyword"
    assert rows["workers"].source == "default"
    assert {name for name, row in rows.items() if row.updatable} == UPDATABLE
    assert all(row.help for row in rows.values())


@pytest.mark.parametrize(
    "key", ["db.password", "my.apiKey", "aws.secret", "TOKEN", "kafka.credentials", "ssl.private_key"]
)
def test_secrets_are_hidden(key):
    text = repr(settings_of(Config(**{key: "c4nary"})))
    assert "c4nary" not in text
    assert HIDDEN in text


def test_the_password_of_a_url_is_hidden():
    [row] = [
        row for row in settings_of(Config(**{"my.db": "postgres://me:c4nary@host/db"})).settings if row.name == "my.db"
    ]
    assert row.value == f'"postgres://{HIDDEN}@host/db"'


def test_letters_are_shown_as_they_are():
    config = Config(**{"my.city": "Zürich"})
    assert [row.value for row in settings_of(config).settings if row.name == "my.city"] == ['"Zürich"']


def test_the_tag_is_of_what_can_be_changed():
    assert tag_of(Config()) == tag_of(Config())
    assert tag_of(Config()) != tag_of(Config(max_spout_pending=5))
    assert tag_of(Config()) == tag_of(Config(**{"db.password": "c4nary"}))

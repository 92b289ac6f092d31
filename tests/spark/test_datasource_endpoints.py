"""Endpoints: a folder of addresses, whole files only, and a token that no other user can read."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from aiostorm.spark import SparkSourceError
from aiostorm.spark.executors import endpoints
from aiostorm.spark.executors.endpoints import Endpoint
from aiostorm.transport import Credentials, CredentialsError


def test_tasks_are_found_in_their_order_and_leave(tmp_path: Path) -> None:
    folder = str(tmp_path / "a")
    places = [endpoints.announce(folder, Endpoint("in", task, 11, f"127.0.0.1:{7000 + task}")) for task in range(11)]
    assert [one.task for one in endpoints.find(folder)] == list(range(11))
    endpoints.announce(folder, Endpoint("in", 3, 11, "127.0.0.1:1"))
    assert endpoints.find(folder)[3].address == "127.0.0.1:1"
    for place in places:
        endpoints.withdraw(place)
        endpoints.withdraw(place)
    assert endpoints.find(folder) == []
    assert os.stat(folder).st_mode & 0o777 == 0o700


def test_a_file_of_another_process_is_not_removed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    place = endpoints.announce(str(tmp_path), Endpoint("in", 0, 1, "127.0.0.1:1"))
    file = Path(place)
    file.write_text(file.read_text().replace(str(os.getpid()), "1"))
    endpoints.withdraw(place)
    assert file.exists()


def test_one_of_several_components_must_be_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    for component in ("in", "out"):
        endpoints.announce(str(tmp_path), Endpoint(component, 0, 1, "127.0.0.1:1"))
    with pytest.raises(SparkSourceError, match="in, out"):
        endpoints.find(str(tmp_path))
    assert endpoints.find(str(tmp_path), "out")[0].component == "out"


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"component": 1}', '{"component": "a", "task": 0, "tasks": 1, "address": "x"}']
)
def test_an_invalid_address_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a-0.json").write_text(text)
    with pytest.raises(SparkSourceError, match="no address"):
        endpoints.find(str(tmp_path))


def test_the_token_is_made_once_by_the_first_task(tmp_path: Path) -> None:
    folder = str(tmp_path / "a")
    found: list[bytes] = []

    def come() -> None:
        security = endpoints.server_security(folder, None)
        assert security.credentials is not None
        found.append(security.credentials.to_bytes())

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert os.listdir(folder) == ["credentials"]
    assert os.stat(os.path.join(folder, "credentials")).st_mode & 0o777 == 0o600


def test_a_client_needs_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIOSTORM_CREDENTIALS", raising=False)
    with pytest.raises(CredentialsError, match="AIOSTORM_CREDENTIALS"):
        endpoints.client_security(None, None)
    folder = str(tmp_path / "a")
    ours = endpoints.server_security(folder, None)
    assert endpoints.client_security(folder, None) == ours
    other = Credentials.new("other")
    monkeypatch.setenv("AIOSTORM_CREDENTIALS", other.to_bytes().decode())
    assert endpoints.client_security(folder, None).credentials == other
    with pytest.raises(SparkSourceError, match="endpoints=FOLDER"):
        endpoints.server_security(None, None)

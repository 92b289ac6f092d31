"""Over TLS: a browser shows no certificate, and its token is what counts."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pytest

from aiostorm import LocalCluster
from aiostorm.transport import Secret
from aiostorm.ui import Dashboard

from ..transport.net.test_tls import Ministry
from .parts import NAME, small

pytestmark = pytest.mark.sockets

TOKEN = Secret(b"0123456789abcdef0123456789abcdef")
GOOD = {"Authorization": f"Bearer {TOKEN.reveal().decode()}"}


async def test_a_token_is_enough_and_needed(tmp_path: Path):
    files = Ministry(tmp_path).files("127.0.0.1", "storm.example")
    trusting = ssl.create_default_context(cafile=files.ca)
    dashboard = Dashboard("127.0.0.1:0", tls=files, token=TOKEN, hosts=["https://storm.example"])
    async with LocalCluster(ui=dashboard) as cluster, aiohttp.ClientSession() as session:
        assert dashboard.url.startswith("https://")
        running = await cluster.submit(NAME, small())
        path = f"{dashboard.url}api/v1/topologies"

        async def status(**headers: str) -> int:
            async with session.get(path, ssl=trusting, headers=headers) as answer:
                return answer.status

        assert await status() == 401
        assert await status(**GOOD) == 200
        assert await status(**GOOD, Host="storm.example") == 200
        assert await status(**GOOD, Host="storm.example", Origin="https://storm.example") == 200
        assert await status(**GOOD, Host="storm.example", Origin="http://storm.example") == 403
        assert await status(**GOOD, Host="evil.example") == 421
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(path.replace("https:", "http:"))
        old = ssl.create_default_context(cafile=files.ca)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(path, ssl=old)
        await running.kill(0)

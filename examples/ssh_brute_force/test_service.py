"""A test of the service, over a real socket: on a free port of this machine."""

from __future__ import annotations

import pytest
from aiohttp import ClientSession, web
from sample_log import sample
from service import make_app


@pytest.mark.sockets
async def test_lines_go_in_and_attacks_come_out() -> None:
    runner = web.AppRunner(make_app())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with ClientSession(f"http://{host}:{port}") as client:
            async with client.post("/log", data="\n".join(sample())) as response:
                assert (response.status, await response.text()) == (204, "")
            async with client.post("/log", data="") as response:
                assert response.status == 204
            async with client.get("/attacks") as response:
                attacks = {attack["address"] for attack in await response.json()}
        assert attacks == {"192.0.2.44", "203.0.113.7", "203.0.113.99"}
    finally:
        await runner.cleanup()

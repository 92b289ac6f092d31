"""Credit also says that a task is in one call for long: at once, and again to each incarnation."""

from __future__ import annotations

import pytest

from aiostorm.transport import ProtocolError

from .exchange_parts import Worker, pair, run_all


async def test_a_long_call_is_reported_at_once_and_again_to_each_incarnation() -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    run_all(a, b)
    inbox, box = a.exchange.inboxes[3], b.mailboxes[3]
    for in_long_call in (True, False, True):
        box.reader.set_in_long_call(in_long_call)
        box.reader.set_in_long_call(in_long_call)
        assert b.router.send("a")
        assert not b.router.send("a"), "once for each change"
        run_all(a, b)
        assert inbox.reader.in_long_call is in_long_call
        assert not a.exchange.inboxes[4].reader.in_long_call
    again = Worker(b.router.reborn(), {"a": [1, 2], "b": [3, 4]})
    run_all(a, again)
    assert not inbox.reader.in_long_call, "the next incarnation has not reported yet"
    again.mailboxes[3].reader.set_in_long_call(True)
    again.exchange.begin()
    run_all(a, again)
    assert inbox.reader.in_long_call
    again.mailboxes[3].reader.set_in_long_call(False)
    run_all(a, again)
    assert not inbox.reader.in_long_call


@pytest.mark.parametrize(
    "credit", [(0, 3, 9, 0, 64), (0, 3, 9, 0, 64, 2), (0, 3, 9, 0, 64, -1), (0, 3, 9, 0, 64, True)]
)
async def test_a_malformed_credit_is_refused(credit: tuple[int, ...]) -> None:
    a, b = pair()
    a.exchange.begin(), b.exchange.begin()
    run_all(a, b)
    with pytest.raises(ProtocolError):
        a.exchange._peer_channels["b"].on_credit(credit)
    assert not a.exchange.inboxes[3].reader.in_long_call

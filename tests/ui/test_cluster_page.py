"""The pages of a cluster in a real browser: they load, fit, are accessible and inert, and send orders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from .browser import needs_axe
from .cluster_feed import OUTPUT, STORE, WAITS, cluster_feed
from .hostile import HOSTILE, hostile
from .test_page import THEMES, WIDTHS, Tab, browser, pytestmark, replayed

__all__ = ["browser", "pytestmark"]

PATHS = ("", "cluster", "n/machine-1", "n/machine-3", "l/orders/worker-1", "l/orders/parent")
READY = "main .card, main .empty"


@pytest.fixture
def base(tmp_path: Path) -> Iterator[str]:
    with replayed(cluster_feed(), tmp_path) as address:
        yield address


def test_every_page_of_a_cluster_loads_and_fits(browser: Any, base: str):
    tab = Tab(browser, base)
    for path in PATHS:
        tab.open(path, READY)
        for width in WIDTHS:
            tab.page.set_viewport_size({"width": width, "height": 800})
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    assert tab.problems == []
    tab.context.close()


@needs_axe
@pytest.mark.parametrize("theme", THEMES)
def test_every_page_of_a_cluster_is_accessible(browser: Any, base: str, theme: str):
    tab = Tab(browser, base, color_scheme=theme, bypass_csp=True)
    for path in PATHS:
        tab.open(path, READY)
        assert tab.axe() == [], (path, theme)
    tab.open("cluster", READY)
    tab.page.get_by_role("button", name="Rebalance… orders").click()
    assert tab.axe() == []
    tab.context.close()


def test_the_cluster_is_shown(browser: Any, base: str):
    tab = Tab(browser, base)
    tab.open("", ".to-cluster")
    tab.page.click(".to-cluster")
    tab.page.wait_for_selector("h1:text-is('Cluster')")
    text = tab.page.inner_text("main")
    for word in (
        STORE,
        WAITS,
        "worker-4 is away",
        "6 of 12",
        "1 without a place",
        "machine-3",
        "detect on gpu, ssd",
        "cgroup",
    ):
        assert word in text, word
    row = tab.page.locator("tr", has_text="worker-4 is away").inner_text()
    assert re.search(r"3\s+runs: 2", row)
    assert tab.page.locator("td a[href='#/t/sensors'], th a[href='#/t/sensors']").count() == 1
    assert tab.page.locator("th a[href='#/t/orders']").count() == 0  # it has no pages here
    assert tab.page.title() == "Cluster – aiostorm"
    tab.page.locator("a", has_text="machine-1").first.click()
    tab.page.wait_for_selector("h1:text-is('machine-1')")
    assert "machine-1" in tab.page.title()
    facts = re.sub(r"\s+", " ", tab.page.inner_text(".stats"))
    assert "cgroup" in facts
    assert "orders no other topology gets work here" in facts
    tab.page.locator("a", has_text="Log of worker-1 of orders").click()
    tab.page.wait_for_selector("pre.output")
    assert tab.page.inner_text("pre.output").strip().splitlines() == OUTPUT.splitlines()
    assert "123 KB before it" in tab.page.inner_text(".foot")
    tab.page.select_option(".filter select", "parent")
    tab.page.wait_for_selector("text=No output yet")
    assert tab.problems == []
    tab.context.close()


def test_orders_are_sent_with_the_header_and_what_came_of_them_is_said(browser: Any, base: str):
    tab = Tab(browser, base)
    sent: list[Any] = []

    def answer(route: Any) -> None:
        request = route.request
        sent.append((request.url.rpartition("/v1/")[2], request.headers.get("x-aiostorm"), request.post_data_json))
        status, body = (
            (409, '{"error": "it is being killed"}')
            if "old" in request.url
            else (202, '{"state": "X", "message": "is to be so"}')
        )
        route.fulfill(status=status, content_type="application/json", body=body)

    tab.page.route("**/topologies/*/*", answer)
    tab.open("cluster", READY)
    orders = tab.page.locator("tr", has_text="worker-4 is away")
    orders.get_by_role("button", name="Deactivate orders").click()
    tab.page.wait_for_selector("td [role=status]:has-text('is to be so')")
    orders.get_by_role("button", name="Rebalance… orders").click()
    assert orders.get_by_label("Tasks of split").input_value() == "4"
    orders.locator("input[name=workers]").fill("2")
    tab.page.keyboard.press("Enter")
    orders.get_by_role("button", name="Rebalance… orders").click()
    orders.get_by_label("Tasks of split").fill("8")
    with tab.page.expect_response("**/api/v1/cluster"):  # what is typed stays when the page is drawn again
        pass
    tab.page.evaluate("new Promise(requestAnimationFrame)")
    tab.page.keyboard.press("Enter")
    orders.get_by_role("button", name="Kill… orders").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    orders.get_by_role("button", name="Kill… orders").click()
    tab.page.get_by_role("dialog").get_by_role("button", name="Kill", exact=True).click()
    tab.page.get_by_role("button", name="Activate sensors").click()
    tab.page.wait_for_selector("tr:has-text('sensors') [role=status]:has-text('is to be so')")
    assert sent == [
        ("topologies/orders/deactivate", "1", None),
        ("topologies/orders/rebalance", "1", {"workers": 2}),
        ("topologies/orders/rebalance", "1", {"workers": 4, "parallelism": {"split": 8}}),
        ("topologies/orders/kill", "1", {}),
        ("topologies/sensors/activate", "1", None),
    ]
    assert tab.page.get_by_role("button", name="Kill… old").count() == 0  # it ends already
    assert tab.problems == []
    tab.context.close()


def test_a_page_that_is_read_only_has_no_orders(browser: Any, tmp_path: Path):
    with replayed(cluster_feed(read_only=True), tmp_path) as base:
        tab = Tab(browser, base)
        tab.open("cluster", READY)
        assert tab.page.locator("main button").count() == 0
        tab.context.close()


def test_the_keyboard_reaches_the_cluster(browser: Any, base: str):
    tab = Tab(browser, base)
    tab.open("", READY)
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("k")
    tab.page.wait_for_selector("h1:text-is('Cluster')")
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "Skip to content"
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("l")
    tab.page.wait_for_selector("h1:text-is('Topologies')")
    assert tab.problems == []
    tab.context.close()


def test_hostile_texts_of_a_cluster_are_only_shown(browser: Any, tmp_path: Path):
    feed = cluster_feed()
    paths = list(feed["cluster"])
    feed = hostile(feed)
    feed["cluster"] = dict(zip(paths, feed["cluster"].values(), strict=True))
    feed["topologies"]["version"] = HOSTILE[0]
    with replayed(feed, tmp_path) as base:
        tab = Tab(browser, base)
        tab.page.add_init_script("window.pwned = 0")
        for path in ("", "cluster", "n/machine-1", "l/orders/worker-1", f"l/{quote(HOSTILE[1], safe='')}/x"):
            tab.open(path, f"{READY}, [role=alert]")
            assert tab.page.evaluate("window.pwned") == 0
            assert tab.page.locator("main script, main iframe, main form[action], main base, main img").count() == 0
        assert [each for each in tab.problems if "404" not in each] == []
        tab.context.close()

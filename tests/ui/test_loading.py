"""What a browser draws first, and what it draws only when it is in sight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from .browser import LAUNCH, REQUIRED, missing
from .test_page import Tab, read_feed, replayed

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()) and not REQUIRED, reason=missing() or "there is a browser"),
]

_CARD: Final = """async () => {
  const { html, render } = await import("/vendor/htm-preact.js");
  const { LiveCard } = await import("/static/parts.js");
  const page = document.createElement("div");
  document.body.replaceChildren(page);
  window.show = (text) => render(html`<div style=${{ height: "3000px" }}></div>
    <${LiveCard} title="Card" draw=${() => html`<p id="shown">${text}</p>`} />`, page);
  show("first");
}"""

_GRAPH: Final = """async () => {
  const { html, render } = await import("/vendor/htm-preact.js");
  const { Dag } = await import("/static/dag.js");
  const page = document.createElement("div");
  document.body.replaceChildren(page);
  const ids = Array.from({ length: 30 }, (_, i) => `c${i}`);
  const nodes = ids.map((id, i) => ({ id, kind: i ? "bolt" : "spout", tasks: 1, layer: i, position: 0 }));
  const edges = ids.slice(1).map((target, i) => ({
    source: ids[i], target, stream: "default", grouping: "shuffle", fields: [], feedback: false,
    points: [[i, 0], [i + 1, 0]],
  }));
  const graph = { nodes, edges, layers: 30, width: 0 };
  const components = nodes.map(({ id, kind }) => ({
    component: id, kind, fill: 0, level: "calm", wait_s: 0, counts: { pending: 0, errors: 0 },
  }));
  const tick = { components, causes: [], marks: { low: 0.4, high: 0.9 } };
  const flow = (edge) => `${edge.source}\\n${edge.stream}\\n${edge.target}`;
  window.show = (speed) => render(html`<${Dag} graph=${graph} tick=${tick} hrefOf=${(id) => `#${id}`}
    speeds=${new Map(ids.map((id) => [id, speed]))} edges=${new Map(edges.map((e) => [flow(e), speed]))} />`, page);
  show(1);
}"""

_TWO_FRAMES: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as browsers:
        launched = browsers.chromium.launch(**LAUNCH)
        yield launched
        launched.close()


@pytest.fixture
def tab(browser: Any, tmp_path: Path) -> Iterator[Tab]:
    with replayed(read_feed("calm"), tmp_path) as base:
        found = Tab(browser, base)
        yield found
        assert found.problems == []
        found.context.close()


def test_the_header_is_there_before_the_program(tab: Tab) -> None:
    held: list[Any] = []
    tab.page.route("**/static/app.js", lambda route: held.append(route))
    tab.page.goto(f"{tab.base}#/t/sensors", wait_until="commit")
    tab.page.wait_for_selector("p.loading")
    header = tab.page.locator("header.top")
    assert header.inner_text() == "aiostorm"
    header.evaluate("(element) => { element.isFirst = true; }")
    held[0].continue_()
    tab.page.wait_for_selector(".node a")
    assert header.evaluate("(element) => element.isFirst")  # the program goes on with it
    assert tab.page.locator("p.loading").count() == 0
    assert tab.page.locator("header.top, main").count() == 2


def test_a_card_out_of_sight_is_drawn_when_it_comes_into_sight(tab: Tab) -> None:
    tab.page.goto(tab.base)
    tab.page.evaluate(_CARD)
    tab.page.evaluate(_TWO_FRAMES)
    tab.page.evaluate("show('second')")
    assert tab.page.text_content("#shown") == "first"
    tab.page.evaluate("document.querySelector('.card').scrollIntoView()")
    tab.page.wait_for_selector("#shown:text-is('second')")
    tab.page.evaluate("show('third')")
    assert tab.page.text_content("#shown") == "third"


def test_components_out_of_sight_are_drawn_when_they_come_into_sight(tab: Tab) -> None:
    page = tab.page
    page.goto(tab.base)
    page.evaluate(_GRAPH)
    page.evaluate(_TWO_FRAMES)
    page.evaluate("show(2)")
    rates = page.locator(".edge-rate")
    assert (rates.first.text_content(), rates.last.text_content()) == ("2.0/s", "1.0/s")
    last = page.locator(".node a").last
    label = "c29 ×1, bolt, {} executed, mailbox 0 % full, calm"
    assert page.locator(".node a").first.get_attribute("aria-label") == "c0 ×1, spout, 2.0/s emitted"
    assert last.get_attribute("aria-label") == label.format("1.0/s")
    last.focus()
    assert last.get_attribute("aria-label") == label.format("2.0/s")
    assert page.locator(".node a[tabindex='0']").count() == 1
    page.wait_for_selector(".node:last-child .node-sub:text-is('2.0/s')")
    page.evaluate("show(3)")
    page.wait_for_selector(".edge-rate:text-is('3.0/s') >> nth=-1")
    assert rates.last.text_content() == "3.0/s"

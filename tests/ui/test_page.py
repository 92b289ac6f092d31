"""The page in a real browser, on recorded feeds: it loads, says nothing on the console, is accessible, and inert."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from .browser import LAUNCH, REQUIRED, axe, missing, needs_axe
from .hostile import HOSTILE, hostile
from .record import FEEDS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()) and not REQUIRED, reason=missing() or "there is a browser"),
]

TABS: Final = (
    "",
    "/pressure",
    "/traces",
    "/errors",
    "/profile",
    "/workers",
    "/time",
    "/snapshots",
    "/logs",
    "/config",
)
THEMES: Final = ("light", "dark")
WIDTHS: Final = (320, 768, 1440, 3840)


def read_feed(name: str) -> dict[str, Any]:
    feed: dict[str, Any] = json.loads((FEEDS / f"{name}.json").read_text("utf-8"))
    return feed


@contextmanager
def replayed(feed: dict[str, Any], folder: Path) -> Iterator[str]:
    """The address at which the feed is served."""
    file = folder / "feed.json"
    file.write_text(json.dumps(feed), "utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.ui.replay", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(10)


class Tab:
    """A page of the browser that watches what must not happen."""

    def __init__(self, browser: Any, base: str, **options: Any) -> None:
        given = {"viewport": {"width": 1440, "height": 900}, "timezone_id": "UTC", "reduced_motion": "reduce"} | options
        self.context = browser.new_context(**given)
        self.page = self.context.new_page()
        self.base = base
        self.problems: list[str] = []
        self.page.on("console", lambda message: self._note(message.type in ("error", "warning"), message.text))
        self.page.on("pageerror", lambda error: self._note(True, str(error)))
        self.page.on("dialog", lambda dialog: (self._note(True, f"dialog {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self._note(not request.url.startswith((base, "data:")), request.url))

    def _note(self, wrong: bool, text: str) -> None:
        if wrong:
            self.problems.append(text)

    def open(self, path: str, waits_for: str = "main .card, main .tile") -> None:
        self.page.goto(f"{self.base}#/{path}")
        self.page.wait_for_selector(waits_for)

    def axe(self) -> list[str]:
        """What axe-core finds, in short."""
        self.page.evaluate(axe())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as browsers:
        launched = browsers.chromium.launch(**LAUNCH)
        yield launched
        launched.close()


@pytest.fixture
def feed_name() -> str:
    return "throttled"


@pytest.fixture
def base(feed_name: str, tmp_path: Path) -> Iterator[str]:
    with replayed(read_feed(feed_name), tmp_path) as address:
        yield address


def paths_of(name: str) -> list[str]:
    """Every page of a feed."""
    feed = read_feed(name)
    topology = feed["documents"]["graph"]["topology"]
    nodes = feed["documents"]["graph"]["nodes"]
    components = [f"t/{topology}/c/{nodes[i]['id']}" for i in (0, 1)]
    return ["", *(f"t/{topology}{tab}" for tab in TABS), *components]


@pytest.mark.parametrize("feed_name", ["calm", "throttled", "failing"])
def test_every_page_loads_and_fits(browser: Any, base: str, feed_name: str):
    tab = Tab(browser, base)
    for path in paths_of(feed_name):
        tab.open(path)
        for width in WIDTHS:
            tab.page.set_viewport_size({"width": width, "height": 800})
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
    assert tab.problems == []
    tab.context.close()


@needs_axe
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("feed_name", ["calm", "throttled", "failing"])
def test_every_page_is_accessible(browser: Any, base: str, feed_name: str, theme: str):
    tab = Tab(browser, base, color_scheme=theme, bypass_csp=True)
    for path in paths_of(feed_name):
        tab.open(path)
        for summary in tab.page.query_selector_all("summary"):
            summary.click()
        assert tab.axe() == [], (path, theme)
    tab.context.close()


def test_the_cause_is_drawn_and_said(browser: Any, base: str):
    tab = Tab(browser, base)
    tab.open("t/demo-shop", ".edge.hot")
    assert tab.page.locator(".edge.hot").count() == 1
    assert "orders waits" in tab.page.inner_text(".cause")
    assert "because payments cannot keep up" in tab.page.inner_text(".cause")
    assert tab.page.locator(".node.guilty a").get_attribute("aria-label").startswith("payments ×2, bolt")
    assert "orders waits" in tab.page.inner_text("[role=status].hidden")
    assert tab.problems == []
    tab.context.close()


def test_the_keyboard_is_enough(browser: Any, base: str):
    tab = Tab(browser, base)
    page = tab.page
    tab.open("t/demo-shop", ".node a")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator(".node a").first.focus()
    label = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(label).startswith("orders ×1, spout")
    for name in ("payments", "revenue", "report", "report"):
        page.keyboard.press("ArrowRight")
        assert page.evaluate(label).startswith(f"{name} ×")
    page.keyboard.press("ArrowLeft")
    assert page.locator(".node a[tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_selector("h2.component-name")
    assert page.inner_text("h2.component-name") == "revenue"
    for key, word in (("p", "Events"), ("n", "Level of a logger"), ("c", "Settings"), ("o", "Graph")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_selector(f"h2:text-is('{word}')")
    page.keyboard.press("?")
    page.wait_for_selector("dialog.help")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog.help", state="detached")
    assert tab.problems == []
    tab.context.close()


def test_a_chart_says_what_it_was_at_the_pointer(browser: Any, base: str):
    tab = Tab(browser, base)
    tab.open("t/demo-shop", ".chart svg .line")
    legend = tab.page.locator(".chart-legend").first
    now = legend.inner_text()
    assert "orders" in now
    assert "/s" in now
    box = tab.page.locator(".chart svg").first.bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 50)
    tab.page.wait_for_selector(".chart .cursor", state="attached")  # a vertical line has no width: "hidden"
    assert legend.inner_text() != now
    tab.page.mouse.move(0, 0)
    tab.page.wait_for_selector(".chart .cursor", state="detached")
    assert legend.inner_text() == now
    assert tab.page.locator("figcaption").first.text_content().startswith("Tuples a second. orders: now ")
    assert tab.problems == []
    tab.context.close()


def test_logs_are_searched_and_levels_are_set(browser: Any, tmp_path: Path):
    with replayed(read_feed("failing"), tmp_path) as base:
        logs_are_searched(Tab(browser, base))


def logs_are_searched(tab: Tab) -> None:
    page = tab.page
    sent: list[Any] = []

    def answer(route: Any) -> None:
        sent.append((route.request.headers.get("x-aiostorm"), route.request.post_data_json))
        route.fulfill(content_type="application/json", body='{"state": "ACTIVE", "message": "logs it at DEBUG"}')

    page.route("**/log-level", answer)
    tab.open("t/failing/logs", ".log li")
    records = page.locator(".log li").count()
    page.fill("input[type=search]", "KeyError")
    page.wait_for_function(f"document.querySelectorAll('.log li').length < {records}")
    assert "KeyError" in page.locator(".log li").first.inner_text()
    page.fill("input[name=logger]", "aiostorm.cluster")
    page.fill("input[type=search]", "")
    page.select_option(".filter select", "CRITICAL")
    page.wait_for_selector("text=None matches.")
    page.select_option(".filter select", "")
    page.wait_for_function(f"document.querySelectorAll('.log li').length == {records}")
    assert page.locator("select[name=level]").input_value() == "INFO"
    page.select_option("select[name=level]", "DEBUG")
    page.focus("select[name=level]")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("form [role=status]:has-text('logs it at DEBUG')")
    assert sent == [("1", {"logger": "aiostorm.cluster", "level": "DEBUG"})]
    assert tab.problems == []
    tab.context.close()


def test_what_is_measured_is_shown(browser: Any, tmp_path: Path):
    with replayed(read_feed("calm"), tmp_path) as base:
        tab = Tab(browser, base)
        tab.open("t/sensors", ".edge-rate")
        assert tab.page.locator(".edge-rate").count() == 6
        assert tab.page.locator("td .busy").count() == 7
        assert " / " in tab.page.locator("tbody tr").nth(2).inner_text()
        tab.open("t/sensors/c/parse", "h2:text-is('Its own metrics')")
        own = tab.page.locator("table").first.inner_text()
        for text in ("bytes\t", "meter", "kind=odd", "counter", "digits", "histogram", "highest", "gauge"):
            assert text in own
        tab.open("t/sensors/workers", "h2:text-is('Process')")
        assert "MB" in tab.page.locator("tbody tr").inner_text()
        tab.open("t/sensors/snapshots", ".stat")
        assert "trigger to commit" in tab.page.inner_text(".stats")
        assert tab.problems == []
        tab.context.close()


def test_errors_are_shown_with_their_tracebacks(browser: Any, tmp_path: Path):
    with replayed(read_feed("failing"), tmp_path) as base:
        tab = Tab(browser, base)
        tab.open("t/failing/errors", "summary")
        tab.page.locator("summary", has_text="ValueError").click()
        assert '"number" <b>at all</b>' in tab.page.inner_text(".error-text >> nth=0")
        assert "Traceback" in tab.page.inner_text("pre >> visible=true")
        assert tab.problems == []
        tab.context.close()


def test_hostile_texts_are_only_shown(browser: Any, tmp_path: Path):
    assert len(set(HOSTILE)) >= 100
    for name in ("failing", "throttled"):
        feed = hostile(read_feed(name))
        topology = quote(feed["documents"]["graph"]["topology"], safe="")
        components = [quote(node["id"], safe="") for node in feed["documents"]["graph"]["nodes"]]
        with replayed(feed, tmp_path) as base:
            tab = Tab(browser, base)
            tab.page.add_init_script("window.pwned = 0")
            tab.open("")
            for part in (*TABS, *(f"/c/{component}" for component in components)):
                tab.open(f"t/{topology}{part}", "main .card")
                for summary in tab.page.query_selector_all("summary"):
                    summary.click()
                for node in tab.page.query_selector_all(".node a, .tile"):
                    node.hover()
                assert tab.page.evaluate("window.pwned") == 0
                assert (
                    tab.page.locator("main script, main iframe, main form[action], main base, main link").count() == 0
                )
                assert tab.page.evaluate("document.querySelectorAll('main img').length") == 0
            assert tab.page.inner_text("h1") == " ".join(feed["documents"]["graph"]["topology"].split())
            assert tab.problems == []
            tab.context.close()


def test_the_end_of_the_server_is_said(browser: Any, tmp_path: Path):
    with replayed(read_feed("calm"), tmp_path) as base:
        tab = Tab(browser, base)
        tab.open("t/sensors", ".node a")
        tab.page.wait_for_selector(".chip:text-is('live')")
    tab.page.wait_for_selector(".chip:has-text('connection lost')")
    assert tab.page.locator(".node a").count() == 7
    tab.context.close()


def test_a_token_is_asked_for_and_sent_in_a_header(browser: Any, base: str):
    tab = Tab(browser, base)
    sent: list[str] = []

    def answer(route: Any) -> None:
        given = route.request.headers.get("authorization", "")
        sent.append(given)
        if given == "Bearer the-token":
            route.continue_()
        else:
            route.fulfill(
                status=401, content_type="application/json", body='{"error": "the token is missing or wrong"}'
            )

    tab.page.route("**/api/v1/**", answer)
    tab.open("", "input[name=token]")
    tab.page.fill("input[name=token]", "wrong")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("[role=alert]")
    tab.page.fill("input[name=token]", "the-token")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector(".tile")
    tab.open("t/demo-shop", ".node a")
    assert sent[:2] == ["", "Bearer wrong"]
    assert set(sent[2:]) == {"Bearer the-token"}
    assert "the-token" not in tab.page.url
    assert tab.context.cookies() == []
    tab.context.close()

"""Pictures of the page on recorded feeds: `python -m tests.ui.pictures` takes them anew; look at them then.

The same page looks different where Chromium or the fonts differ. So `environment.json` has the version of Chromium and
the width of a text in the page's fonts: pixels are compared only where both are the same. The boxes (layout.json) are
compared everywhere, without what depends on fonts.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from .browser import LAUNCH

FOLDER: Final = Path(__file__).with_name("pictures")

SIZE: Final = {"width": 1000, "height": 760}

MOST_DIFFERENT: Final = 0.005
"""Of the pixels of a picture."""

SHOTS: Final = (
    ("calm", "t/sensors", "light"),
    ("calm", "t/sensors/c/parse", "dark"),
    ("calm", "t/sensors/snapshots", "light"),
    ("throttled", "t/demo-shop", "dark"),
    ("throttled", "t/demo-shop/pressure", "light"),
    ("failing", "t/failing", "light"),
    ("failing", "t/failing/errors", "dark"),
)

_FONTS: Final = """() => ["system-ui", "monospace"].map((family) => {
  const context = document.createElement("canvas").getContext("2d");
  context.font = `16px ${family}`;
  return Math.round(context.measureText("The quick brown fox, 0123456789 µs").width * 10);
})"""

_BOXES: Final = """() => [
  ...document.querySelectorAll("main h1, main h2, .card, .stat, .tabs a, .node-box, thead th"),
].map((each) => {
  const kind = [each.tagName.toLowerCase(), ...each.classList].join(".");
  const box = each.getBoundingClientRect();
  const text = each.matches("h1, h2, a, th") ? each.textContent : "";
  const wide = each.matches(".card, .node-box") ? Math.round(box.width) : null;
  return [kind, text, wide];
})"""

_DIFFERENT: Final = """async ([a, b]) => {
  const read = async (data) => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [one, other] = [await read(a), await read(b)];
  if (one.width !== other.width || one.height !== other.height) return 1;
  let different = 0;
  for (let i = 0; i < one.data.length; i += 4) {
    const most = Math.max(...[0, 1, 2].map((k) => Math.abs(one.data[i + k] - other.data[i + k])));
    if (most > 24) different += 1;
  }
  return different / (one.width * one.height);
}"""


def name_of(feed: str, path: str, theme: str) -> str:
    """Of a picture."""
    last = path.split("/")[2:]
    return "-".join([feed, *(last or ["overview"]), theme])


def environment(browser: Any) -> dict[str, Any]:
    """What pixels depend on."""
    page = browser.new_page()
    try:
        return {"chromium": browser.version.split(".")[0], "fonts": page.evaluate(_FONTS)}
    finally:
        page.close()


def shot(browser: Any, base: str, path: str, theme: str) -> tuple[bytes, list[Any]]:
    """The picture of a page, and its boxes: what they are, their texts, and how wide those are that no font decides."""
    page = browser.new_page(viewport=SIZE, color_scheme=theme, timezone_id="UTC", reduced_motion="reduce")
    try:
        page.goto(f"{base}#/{path}")
        page.wait_for_selector(".chip:text-is('live')")
        page.wait_for_selector("main .card")
        page.wait_for_timeout(300)  # the second answer of the pages that ask again
        return page.screenshot(), page.evaluate(_BOXES)
    finally:
        page.close()


def difference(browser: Any, one: bytes, other: bytes) -> float:
    """The share of pixels that differ."""
    page = browser.new_page()
    try:
        found: float = page.evaluate(_DIFFERENT, [base64.b64encode(each).decode() for each in (one, other)])
        return found
    finally:
        page.close()


def main() -> None:
    """Take all."""
    from playwright.sync_api import sync_playwright

    from .test_page import read_feed, replayed

    FOLDER.mkdir(exist_ok=True)
    layouts = {}
    with sync_playwright() as browsers, TemporaryDirectory() as folder:
        browser = browsers.chromium.launch(**LAUNCH)
        for feed, path, theme in SHOTS:
            with replayed(read_feed(feed), Path(folder)) as base:
                picture, layout = shot(browser, base, path, theme)
            name = name_of(feed, path, theme)
            (FOLDER / f"{name}.png").write_bytes(picture)
            layouts[name] = layout
        (FOLDER / "environment.json").write_text(json.dumps(environment(browser)) + "\n")
        browser.close()
    rows = [f"{json.dumps(name)}: {json.dumps(layout)}" for name, layout in layouts.items()]
    (FOLDER / "layout.json").write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()

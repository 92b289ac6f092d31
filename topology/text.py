"""Text: a name as it may be shown. A text of the user's never moves a cursor, and never becomes markup."""

from __future__ import annotations

import html


def printable(text: str) -> str:
    """The text on one line, with escapes for characters that cannot be printed."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shortened(text: str, most: int) -> str:
    """The text, cut to that many characters, with `…` at its end."""
    return text if len(text) <= most else text[: most - 1] + "…"


def markup(text: str, most: int = 0) -> str:
    """A text for HTML, SVG and XML, also inside an attribute: printable, cut if `most` is given, and escaped."""
    text = printable(text)
    return html.escape(shortened(text, most) if most else text)

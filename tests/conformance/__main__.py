"""Write docs/conformance.md anew."""

from __future__ import annotations

from .table import PAGE, page, scenarios

PAGE.write_text(page(), encoding="utf-8")
print(f"{PAGE}: {len(scenarios())} scenarios")

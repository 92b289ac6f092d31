"""Report: a run as one HTML file, and a running topology as a card in a notebook. No network, no script.

RunningTopology ─ each second ─► samples ─► charts ─┐
                ─ at the end ─► summary, graph, … ──┴─► page ─► file
"""

from .card import card
from .report import Report, ReportError, unwritable

__all__ = ["Report", "ReportError", "card", "unwritable"]

"""Renders a run and computes nothing: html, json, junit and Open-PSA, tables for the terminal, charts as SVG.

>>> from roadworthy.registry import components
>>> sorted(components("reports"))
['html', 'json', 'junit', 'open_psa']
"""

from __future__ import annotations

from .run_view import ReportError, RunView

__all__ = ["ReportError", "RunView"]

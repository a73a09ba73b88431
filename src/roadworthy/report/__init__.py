"""Renders a record and computes nothing: html, json, junit and Open-PSA, tables for the terminal, charts as SVG.

>>> from roadworthy.registry import components
>>> sorted(components("reports"))
['html', 'json', 'junit', 'open_psa']
"""

from __future__ import annotations

from roadworthy import numbers
from roadworthy.report.blocks import ReportError

__all__ = ["ReportError", "numbers"]

"""A chart as a file of its own: with its colours, its ground and a font, for documents that have no style sheet of ours.

>>> from roadworthy.report.charts.svg import chart, element
>>> drawn = chart([element("circle", r=2)], name="x", title="t", description="d", width=100, height=50)
>>> alone = standalone(drawn)
>>> alone.startswith("<svg") and "--rw-ink" in alone and 'width="100"' in alone
True
"""

from __future__ import annotations

import re

from roadworthy.report.charts.palette import css

PAD = 16.0


def standalone(drawn: str) -> str:
    """The chart with what a page would give it; light or dark as its reader asks."""
    found = re.match(r'<svg([^>]*?) viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>', drawn)
    if found is None:
        raise ValueError("a chart begins with <svg and has a viewBox from 0 0; this text does not")
    width, height = float(found[2]) + 2 * PAD, float(found[3]) + 2 * PAD
    box = f"{-PAD:g} {-PAD:g} {width:g} {height:g}"
    ground = f'<rect x="{-PAD:g}" y="{-PAD:g}" width="{width:g}" height="{height:g}" fill="var(--rw-surface)"/>'
    style = f"<style>{css()}svg{{font-family:'Liberation Sans',Arial,sans-serif}}</style>"
    head = f'<svg{found[1]} viewBox="{box}" width="{float(found[2]):g}">'
    return head + style + ground + drawn[found.end() :]

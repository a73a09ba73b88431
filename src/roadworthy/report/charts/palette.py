"""One palette for every chart and page: after Okabe and Ito (2008), adjusted until text is readable.

The colours are CSS custom properties, so a picture follows the reader's light or dark setting, and
prints light. Colour is never the only sign: a status has a mark and a shape too. A ramp runs in one
hue by lightness, so it survives greyscale.

>>> round(contrast(LIGHT["breached"], LIGHT["surface"]), 1) >= 4.5
True
>>> css().count("--rw-ink:")
2
"""

from __future__ import annotations

import re
from importlib import resources

LIGHT: dict[str, str] = {
    "page": "#f5f6f8",
    "surface": "#ffffff",
    "raised": "#f0f3f6",
    "ink": "#18202a",
    "muted": "#56616e",
    "grid": "#e2e6eb",
    "edge": "#cfd6de",
    "accent": "#0067a3",
    "band": "#0067a326",
    "met": "#006b4f",
    "breached": "#b33a00",
    "inconclusive": "#7d5400",
    "purple": "#8a3a74",
    "met-soft": "#e3f4ee",
    "breached-soft": "#fdece4",
    "inconclusive-soft": "#fbf1dc",
}
DARK: dict[str, str] = {
    "page": "#0d1218",
    "surface": "#151b23",
    "raised": "#1d252f",
    "ink": "#e7ecf2",
    "muted": "#a4b0bd",
    "grid": "#2a333e",
    "edge": "#3b4755",
    "accent": "#5ab3ee",
    "band": "#5ab3ee33",
    "met": "#4fcaa2",
    "breached": "#ff9a6c",
    "inconclusive": "#e8bb52",
    "purple": "#e59ccb",
    "met-soft": "#12312a",
    "breached-soft": "#3a2118",
    "inconclusive-soft": "#362a10",
}
RAMP_LIGHT = "#eef4fa #d6e6f4 #b5d3eb #8cbbdd #5c9dcb #2877ad #0f6099 #07477a"
RAMP_DARK = "#1a2632 #1c354a #1d4666 #225c86 #3a78a8 #5f98c6 #8bbbe2 #bcdcf5"
LOSS_LIGHT = "#fdf3ec #fae0d0 #f6c5a9 #eea37c #de7f4e #bd5214 #994000 #732e00"
LOSS_DARK = "#2b201b #412619 #5a2f19 #7a3d1c #a35527 #cb7640 #ee9d69 #ffc7a3"
"""Two ramps, pale to strong: strong is good on the first, and bad on the one for what is lost."""
STEPS = len(RAMP_LIGHT.split())
MASKS = {"orange": 0xE69F00, "blue": 0x0072B2, "green": 0x009E73, "pink": 0xCC79A7}
"""Colours of the classes in a mask over a picture, from class 1 on; they repeat."""


def css() -> str:
    """The custom properties, light by default and in print, dark if asked for; the charts' classes."""
    return (
        f":root{{color-scheme:light dark;{_properties(LIGHT, RAMP_LIGHT, LOSS_LIGHT)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{_properties(DARK, RAMP_DARK, LOSS_DARK)}}}}}\n"
        + (resources.files("roadworthy.report") / "assets/charts.css").read_text(encoding="utf-8")
        + _ramp()
    )


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours (WCAG 2.2): 4.5 is enough for text, 3 for marks."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on the colour."""
    return max(("#10161d", "#ffffff"), key=lambda ink: contrast(ink, colour))


def _properties(colours: dict[str, str], ramp: str, loss: str) -> str:
    steps = {
        f"{name}{i}": c
        for name, shades in (("ramp", ramp), ("loss", loss))
        for i, c in enumerate(shades.split())
    }
    inks = {f"{name}-ink": ink_on(c) for name, c in steps.items()}
    return "".join(f"--rw-{name}:{colour};" for name, colour in (colours | steps | inks).items())


def _ramp() -> str:
    return "".join(
        f".rw-chart .{step}{{fill:var(--rw-{step})}}.rw-chart .{step}-ink{{fill:var(--rw-{step}-ink)}}"
        f".rw-chart .{step}-line{{stroke:var(--rw-{step}-ink)}}\n"
        for step in (f"{name}{i}" for name in ("ramp", "loss") for i in range(STEPS))
    )


PAD = 16.0


def standalone(drawn: str) -> str:
    """The chart as a file of its own, with its colours, its ground and a font; light or dark as its reader asks.

    >>> alone = standalone('<svg class="x" viewBox="0 0 100 50"></svg>')
    >>> alone.startswith("<svg") and "--rw-ink" in alone and 'width="100"' in alone
    True
    """
    found = re.match(r'<svg([^>]*?) viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>', drawn)
    if found is None:
        raise ValueError("a chart begins with <svg and has a viewBox from 0 0; this text does not")
    width, height = float(found[2]) + 2 * PAD, float(found[3]) + 2 * PAD
    box = f"{-PAD:g} {-PAD:g} {width:g} {height:g}"
    ground = f'<rect x="{-PAD:g}" y="{-PAD:g}" width="{width:g}" height="{height:g}" fill="var(--rw-surface)"/>'
    style = f"<style>{css()}svg{{font-family:'Liberation Sans',Arial,sans-serif}}</style>"
    head = f'<svg{found[1]} viewBox="{box}" width="{float(found[2]):g}">'
    return head + style + ground + drawn[found.end() :]

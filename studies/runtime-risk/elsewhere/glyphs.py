"""Draws letters and figures in 47 typefaces, for letters.py (they need Pillow, the network needs torch: two environments).

.venv-peers/risk/bin/python studies/runtime-risk/elsewhere/glyphs.py     # writes cache/elsewhere/drawn/letters.npz
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from packages import MADE, members
from scores import CLEAN

SANS = "roboto open-sans lato noto-sans inter montserrat work-sans nunito raleway poppins rubik ubuntu mulish cabin karla"
SERIF = "merriweather lora playfair-display eb-garamond libre-baskerville crimson-text bitter"
KINDS = {
    "serif": SERIF,
    "mono": "roboto-mono ubuntu-mono courier-prime space-mono inconsolata fira-mono anonymous-pro",
    "handwriting": "pacifico dancing-script caveat indie-flower satisfy great-vibes shadows-into-light kalam",
    "display": "lobster bebas-neue abril-fatface righteous bangers press-start-2p monoton fredoka audiowide",
}
ITALIC = f"{SANS} merriweather lora"
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
DRAWN = MADE / "drawn" / "letters.npz"
SEED, SIDE, PAGE, TRAIN_ROWS, CLEAN_ROWS, KIND_ROWS = 11, 32, 64, 6000, 1600, 1500
SIZES = range(22, 30)


def typefaces(families: str, style: str = "normal") -> list[bytes]:
    """The font files of some families, of the weights 400, 500 and 700."""
    pattern = f"package/files/*-latin-[457]00-{style}.woff"
    found = [
        content
        for name in families.split()
        for content in members(f"@fontsource/{name}", pattern).values()
    ]
    if not found:
        raise ValueError(f"no {style} typeface in {families}")
    return found


class Pen:
    """Draws characters, each font and size opened once."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng, self._opened = rng, dict[tuple[int, int], Any]()

    def draw(self, typeface: bytes, character: str) -> np.ndarray:
        """Of some size, a little turned and aside, in some shade and with some noise."""
        from PIL import Image, ImageDraw, ImageFont

        rng, size = self._rng, int(self._rng.choice(SIZES))
        key = id(typeface), size
        if key not in self._opened:
            self._opened[key] = ImageFont.truetype(io.BytesIO(typeface), size)
        page = Image.new("L", (PAGE, PAGE), 0)
        middle = (PAGE / 2, PAGE / 2)
        ImageDraw.Draw(page).text(middle, character, font=self._opened[key], fill=255, anchor="mm")
        turned = np.asarray(
            page.rotate(rng.normal(0, 4), resample=Image.Resampling.BILINEAR), dtype=float
        )
        y, x = (PAGE - SIDE) // 2 + rng.integers(-3, 4, 2)
        shaded = turned[y : y + SIDE, x : x + SIDE] * rng.uniform(0.6, 1.0)
        noise = 255 * rng.uniform(0.02, 0.25) * rng.standard_normal((SIDE, SIDE))
        return np.clip(shaded + noise, 0, 255).astype(np.uint8)


def main() -> None:
    """The command."""
    rng = np.random.default_rng(SEED)
    pen, home = Pen(rng), typefaces(SANS)
    folds = [("train", home, TRAIN_ROWS), *((name, home, CLEAN_ROWS) for name in CLEAN)]
    folds += [(name, typefaces(families), KIND_ROWS) for name, families in KINDS.items()]
    folds.append(("italic", typefaces(ITALIC, "italic"), KIND_ROWS))
    pixels, truth, fold = [], [], []
    for name, faces, count in folds:
        classes = rng.integers(len(CHARACTERS), size=count)
        chosen = rng.integers(len(faces), size=count)
        pixels += [pen.draw(faces[f], CHARACTERS[c]) for f, c in zip(chosen, classes, strict=True)]
        truth.append(classes)
        fold += [name] * count
        print(f"letters, {name}: {count} in {len(faces)} typefaces", flush=True)
    DRAWN.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        DRAWN, pixels=np.array(pixels), truth=np.concatenate(truth), fold=np.array(fold)
    )


if __name__ == "__main__":
    main()

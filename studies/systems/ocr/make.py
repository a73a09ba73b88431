"""Pictures of printed lines with exact transcripts, for studies/systems/ocr: `python make.py [--cases 200]`.

A picture has one to three lines: numbers, names, dates and amounts as they stand on receipts and
labels. Font, size, ink, paper, its shading and a slight tilt are drawn per picture. Everything
follows from the seed, the Pillow version and the fonts that matplotlib brings (DejaVu).
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

CACHE = Path(__file__).resolve().parents[1] / "cache" / "ocr"
SIZE = (320, 160)
FACES = ("Sans", "Sans-Bold", "Sans-Oblique", "Serif", "Serif-Bold", "SansMono", "SansMono-Bold")
WORDS = """account address amount average balance battery bottle branch bridge budget button camera
centre change charge clinic coffee colour copper corner cotton credit dealer demand design device
dinner doctor engine exchange export factory failure filter finger garden ground harbour hospital
invoice island journal kitchen label ladder laser letter library licence margin market matter
measure member minute mirror module monitor morning motor museum number object office orange order
origin packet paper parcel patient pencil period person pharmacy picture planet pocket policy police
powder price printer product project quality quarter receipt record region repair report reserve
return river sample school season second sector sensor series server service signal silver station
stone storage street summer supply surface switch system table target ticket timber total tracker
traffic train transfer travel valley value vendor vessel village volume warning water weather window
winter witness workshop yellow""".split()  # noqa: SIM905
ROLES = ("test", "reference", "calibration")


def line(rng: np.random.Generator) -> str:
    """One line of print."""
    one, two = (str(w) for w in rng.choice(WORDS, size=2, replace=False))
    number = int(rng.integers(10, 9999))
    date = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.20{rng.integers(10, 30)}"
    forms = (
        f"{one.capitalize()} {two}",
        f"{one.capitalize()} {number}",
        f"{two.upper()} {date}",
        f"{one} {two} {number / 100:.2f}",
    )
    return forms[rng.integers(len(forms))]


def picture(rng: np.random.Generator, fonts: Path) -> tuple[np.ndarray, str]:
    """A picture and what is printed in it."""
    ink, paper = rng.integers(0, 90, 3), rng.integers(150, 256, 3)
    if rng.random() < 0.2:
        ink, paper = paper, ink
    image = Image.new("RGB", SIZE, tuple(int(c) for c in paper))
    draw, texts, top = ImageDraw.Draw(image), [], int(rng.integers(8, 24))
    face = fonts / f"DejaVu{rng.choice(FACES)}.ttf"
    for _ in range(rng.integers(1, 4)):
        text, size = line(rng), int(rng.integers(20, 35))
        font = ImageFont.truetype(str(face), size)
        while draw.textlength(text, font=font) > SIZE[0] - 24:
            size -= 1
            font = ImageFont.truetype(str(face), size)
        draw.text((12, top), text, fill=tuple(int(c) for c in ink), font=font)
        texts.append(text)
        top += int(size * 1.2) + 12
    tilted = image.rotate(
        rng.uniform(-2, 2), Image.Resampling.BICUBIC, fillcolor=tuple(map(int, paper))
    )
    across = np.linspace(-1, 1, SIZE[0])[None, :, None] * rng.uniform(-15, 15)
    grain = rng.normal(0, rng.uniform(0, 5), (SIZE[1], SIZE[0], 1))
    return np.clip(np.asarray(tilted) + across + grain, 0, 255).astype(np.uint8), " ".join(texts)


def make(folder: Path, cases: int, seed: int = 0) -> None:
    """As many test pictures as asked for, as many reference ones, and a quarter for calibration."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise SystemExit(
            "the fonts come with matplotlib: pip install -r studies/systems/requirements.txt"
        )
    fonts = Path(spec.origin).parent / "mpl-data" / "fonts" / "ttf"
    for role_number, role in enumerate(ROLES):
        (folder / role).mkdir(parents=True, exist_ok=True)
        with (folder / f"{role}.csv").open("w", newline="") as table:
            rows = csv.writer(table)
            rows.writerow(["image", "transcript"])
            for case in range(max(30, cases // 4) if role == "calibration" else cases):
                image, text = picture(np.random.default_rng([seed, role_number, case]), fonts)
                Image.fromarray(image).save(folder / role / f"{case:04d}.png")
                rows.writerow([f"{role}/{case:04d}.png", text])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200)
    make(CACHE, parser.parse_args().cases)

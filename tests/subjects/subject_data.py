"""Data for the five tiny subjects, made with exact truth."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nearest_mean
import numpy as np
import tone_words
from scipy.io import wavfile

from roadworthy.data.png import encode_png

HERE = Path(__file__).parent


def place(name: str, folder: Path, *, assessment: str = "") -> Path:
    """A folder as a user would have it: subject.py, assessment.yaml and the data. Returns the assessment file."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / f"{name}.py", folder / "subject.py")
    shutil.copy(HERE / f"{assessment or name}.yaml", folder / "assessment.yaml")
    MAKE[name](folder)
    return folder / "assessment.yaml"


def pictures(folder: Path) -> None:
    """90 images of three classes, thirty patients, two sites; two labels are wrong, so accuracy is 88/90."""
    rng = np.random.default_rng(1)
    labels = np.arange(90) % 3
    images = nearest_mean.mean_images()[labels] + rng.normal(0, 4, (90, 8, 8))
    labels[[0, 45]] = 1
    patients = np.array([f"p{i // 3}" for i in range(90)])
    sites = np.where(np.arange(90) < 54, "A", "B")
    np.savez(
        folder / "test.npz",
        images=images.astype(np.uint8),
        labels=labels,
        patient=patients,
        site=sites,
    )


def scenes(folder: Path) -> None:
    """20 images with 30 rectangles, four of them too dark to be found: precision is 1 up to the recall 26/30."""
    rng = np.random.default_rng(2)
    (folder / "scenes").mkdir()
    images, annotations = [], []
    for i in range(20):
        image = np.full((32, 32), 40, np.uint8)
        images.append({"id": i, "file_name": f"{i:02}.png", "width": 32, "height": 32})
        for left in (0, 16)[: 1 + i % 2]:
            x, y, w, h = (
                left + int(rng.integers(1, 5)),
                int(rng.integers(1, 15)),
                *rng.integers(5, 10, 2).tolist(),
            )
            image[y : y + h, x : x + w] = (
                100 if i % 5 == 0 and left == 0 else rng.integers(200, 256)
            )
            annotations.append(
                {"id": len(annotations), "image_id": i, "category_id": 1, "bbox": [x, y, w, h]}
            )
        (folder / "scenes" / f"{i:02}.png").write_bytes(encode_png(image))
    content = {
        "images": images,
        "annotations": annotations,
        "categories": [{"id": 1, "name": "block"}],
    }
    (folder / "scenes.json").write_text(json.dumps(content))


def video(folder: Path) -> None:
    """Ten sequences of six frames: one square goes right, one goes left below it.

    In two sequences a square is dark for a frame: one miss each, and one new identity, of 120 objects.
    """
    rng = np.random.default_rng(3)
    for s in range(10):
        sequence = folder / "video" / f"drive{s:02}"
        (sequence / "img1").mkdir(parents=True)
        (sequence / "gt").mkdir()
        lines = []
        light = rng.integers(200, 256, 2).tolist()
        for t in range(6):
            frame = np.full((32, 32), 40, np.uint8)
            for identity, (x, y) in enumerate([(2 + 3 * t, 4), (24 - 3 * t, 20)]):
                dark = s % 5 == 0 and t == 3 and identity == 0
                frame[y : y + 6, x : x + 6] = 100 if dark else light[identity]
                lines.append(f"{t + 1},{identity + 1},{x + 1},{y + 1},6,6,1,1,1")
            (sequence / "img1" / f"{t + 1:06}.png").write_bytes(encode_png(frame))
        (sequence / "gt" / "gt.txt").write_text("\n".join(lines) + "\n")


def recordings(folder: Path) -> None:
    """20 clips of three to five words, 79 in all, by ten speakers; in two clips the first word has another word's tone."""
    rng = np.random.default_rng(4)
    rate = 8000
    lines = ["audio,transcript,speaker"]
    for i in range(20):
        said = [str(w) for w in rng.choice(list(tone_words.WORDS), size=3 + i % 3)]
        times = np.arange(int(rate * tone_words.SECONDS)) / rate
        tones = [tone_words.WORDS[w] for w in said]
        if i < 2:
            tones[0] = 600.0 if tones[0] != 600.0 else 1200.0
        wave = np.concatenate([np.sin(2 * np.pi * tone * times + 0.3) for tone in tones])
        wavfile.write(folder / f"{i:02}.wav", rate, (wave * 16000).astype(np.int16))
        lines.append(f"{i:02}.wav,{' '.join(said)},s{i % 10}")
    (folder / "clips.csv").write_text("\n".join(lines) + "\n")


def goals(folder: Path) -> None:
    """45 goals: every pair of area and price five times; two ask for "budget", which the understander does not know."""
    wanted = [
        (a, p) for a in ("north", "south", "centre") for p in ("cheap", "moderate", "expensive")
    ] * 5
    wanted[0] = wanted[10] = ("north", "budget")
    content = [
        {"id": f"g{i}", "goal": {"area": a, "price": p}, "metadata": {"area": a}}
        for i, (a, p) in enumerate(wanted)
    ]
    (folder / "goals.json").write_text(json.dumps(content))


MAKE = {
    "nearest_mean": pictures,
    "box_finder": scenes,
    "box_tracker": video,
    "tone_words": recordings,
    "booking": goals,
}

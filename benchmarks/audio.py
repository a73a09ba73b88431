"""How fast the transforms of recordings are against audiomentations, measured in one run.

    python benchmarks/audio.py                   # needs .venv-peers/audio, see benchmarks/peers-audio.txt
    python benchmarks/audio.py --clips 4         # a quick look

Each side runs in its own environment on the same clips of 10 seconds, whole calls on one thread, in
processor time; the two take turns, and the median over the clips in the best of three rounds counts. Ours
has a generator of its own for every case; audiomentations reads its noise and its impulse response from a
file once. It has no effect that changes the speed: its resampling, which does the same work, stands beside
it. Tempo and pitch are the same library, python-stretch, on both sides.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import wavfile

ROOT = Path(__file__).resolve().parent.parent
PEERS = {
    "background_noise": "AddGaussianSNR",
    "background_noise, folder": "AddBackgroundNoise",
    "reverb": "ApplyImpulseResponse",
    "distortion": "TanhDistortion",
    "speed": "Resample",
    "tempo": "TimeStretch",
    "pitch_shift": "PitchShift",
}
FORMS = {"16 kHz mono": (16000, 1), "48 kHz stereo": (48000, 2)}
SECONDS = 10
ROUNDS = 3


def speech_like(clip: int, rate: int, channels: int) -> np.ndarray:
    """Bursts of coloured noise and tones, (samples, channels); the same on both sides."""
    rng = np.random.default_rng(clip)
    time_ = np.arange(SECONDS * rate) / rate
    voiced = sum(np.sin(2 * np.pi * k * (110 + 9 * clip) * time_) / k for k in range(1, 9))
    bursts = np.clip(np.sin(2 * np.pi * 2.1 * time_), 0, 1)
    wave = 0.1 * bursts * (voiced + 0.3 * rng.standard_normal(len(time_)))
    return np.repeat(wave[:, None], channels, axis=1).astype(np.float32)


def ours(name: str, rate: int, folder: Path) -> Callable[[np.ndarray], Any]:
    """One call of roadworthy, as an assessment makes it."""
    from roadworthy.cases.transform import Transform
    from roadworthy.data.values import Audio

    settings: dict[str, dict[str, Any]] = {
        "background_noise": {"snr_db": 5.0},
        "background_noise, folder": {"snr_db": 5.0, "noise": str(folder)},
        "reverb": {"wet": 0.67},
        "distortion": {"gain_db": 20.0},
        "speed": {"factor": 1.5},
        "tempo": {"factor": 1.5},
        "pitch_shift": {"semitones": 4.0},
    }
    made = Transform(name.split(",")[0], settings[name])
    cases = itertools.count()
    return lambda wave: made.at_step(
        Audio(wave[:, 0] if wave.shape[1] == 1 else wave, rate), 0, f"case {next(cases)}"
    )


def peers(name: str, rate: int, folder: Path) -> Callable[[np.ndarray], Any]:
    """One call of audiomentations, which takes (channels, samples)."""
    import audiomentations

    slower = round(rate / 1.5)
    settings: dict[str, dict[str, Any]] = {
        "background_noise": {"min_snr_db": 5.0, "max_snr_db": 5.0},
        "background_noise, folder": {"sounds_path": folder, "min_snr_db": 5.0, "max_snr_db": 5.0},
        "reverb": {"ir_path": folder, "leave_length_unchanged": True},
        "distortion": {"min_distortion": 0.5, "max_distortion": 0.5},
        "speed": {"min_sample_rate": slower, "max_sample_rate": slower},
        "tempo": {"min_rate": 1.5, "max_rate": 1.5, "leave_length_unchanged": False},
        "pitch_shift": {"min_semitones": 4.0, "max_semitones": 4.0},
    }
    effect = getattr(audiomentations, PEERS[name])(**settings[name], p=1.0)
    return lambda wave: effect(wave[0] if len(wave) == 1 else wave, sample_rate=rate)


def seconds_a_clip(call: Callable[[np.ndarray], Any], clips: list[np.ndarray]) -> float:
    """The median over the clips, after one call that warms up."""
    call(clips[0])
    found = []
    for clip in clips:
        start = time.process_time()
        call(clip)
        found.append(time.process_time() - start)
    return float(np.median(found))


def measure(side: str, count: int, folder: Path) -> dict[str, dict[str, float]]:
    """One round of one side."""
    found: dict[str, dict[str, float]] = {}
    for form, (rate, channels) in FORMS.items():
        clips = [speech_like(clip, rate, channels) for clip in range(count)]
        if side == "peers":
            clips = [np.ascontiguousarray(clip.T) for clip in clips]
        maker = ours if side == "ours" else peers
        # noise from a folder is for mono alone there
        names = [n for n in PEERS if channels == 1 or n != "background_noise, folder"]
        found[form] = {name: seconds_a_clip(maker(name, rate, folder), clips) for name in names}
    return found


def round_of(side: str, python: Path, count: int, folder: Path) -> dict[str, dict[str, float]]:
    """One round in that side's environment, on one thread."""
    command = [str(python), "-W", "ignore", __file__, "--side", side, "--clips", str(count)]
    threads = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    done = subprocess.run(
        [*command, "--folder", str(folder)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **threads},
    )
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def table(mine: list[dict[str, Any]], theirs: list[dict[str, Any]], count: int) -> str:
    """The result as Markdown."""
    lines = [
        f"{count} clips of {SECONDS} s, median, best of {ROUNDS}",
        "",
        "| transform | form | ours, ms a clip | audiomentations, ms a clip | ratio | wanted |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for name, form in itertools.product(PEERS, FORMS):
        if name not in theirs[0][form]:
            continue
        a, b = (min(r[form][name] for r in rounds) * 1e3 for rounds in (mine, theirs))
        lines.append(f"| {name} | {form} | {a:.2f} | {b:.2f} ({PEERS[name]}) | {b / a:.2f} | 1 |")
    return "\n".join(lines)


def main() -> int:
    """Both sides in turns, or one side's round when asked by the first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clips", type=int, default=20)
    parser.add_argument("--side", choices=("ours", "peers"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options.clips, options.folder)))
        return 0
    peer_python = ROOT / ".venv-peers" / "audio" / "bin" / "python"
    if not peer_python.exists():
        print(
            f"{peer_python.relative_to(ROOT)} is not there: make it from benchmarks/peers-audio.txt",
            file=sys.stderr,
        )
        return 2
    mine, theirs = [], []
    with tempfile.TemporaryDirectory() as place:
        # half a second of noise that dies away serves as noise and as impulse response
        time_ = np.arange(8000) / 16000
        dying = np.random.default_rng(0).standard_normal(8000) * 10 ** (-6 * time_) / 5
        wavfile.write(Path(place) / "noise.wav", 16000, dying.astype(np.float32))
        for _ in range(ROUNDS):
            mine.append(round_of("ours", Path(sys.executable), options.clips, Path(place)))
            theirs.append(round_of("peers", peer_python, options.clips, Path(place)))
    print(table(mine, theirs, options.clips))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

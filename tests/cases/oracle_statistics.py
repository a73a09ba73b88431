"""How far imagecorruptions 1.1.2 moves photos, kept in statistics_oracle.json for tests that run without it.

    .venv-peers/bin/python tests/cases/oracle_statistics.py     # environment: benchmarks/peers.txt

For every corruption and level: mean and standard deviation of the change in grey levels, SSIM (Gaussian window of sigma 1.5) and
PSNR against the clean photo. Each is a mean over the photos; over ten seeds its mean and standard error are kept. The peer cuts
fractions off when it turns its result into bytes; here they are rounded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

HERE = Path(__file__).parent
ORACLE = HERE / "statistics_oracle.json"
LEVELS = range(1, 6)
SEEDS = 10
FIGURES = ("mean", "deviation", "ssim", "psnr")


def photos() -> list[np.ndarray]:
    """The photos, RGB."""
    files = sorted((HERE / "photos").glob("*.jpg"))
    return [cv2.cvtColor(cv2.imread(str(f)), cv2.COLOR_BGR2RGB) for f in files]


def ssim(a: np.ndarray, b: np.ndarray) -> float:
    """Structural similarity (Wang et al. 2004) of 8-bit pictures, mean over pixels and channels."""
    x, y = a.astype(np.float64), b.astype(np.float64)

    def soft(values: np.ndarray) -> np.ndarray:
        return cv2.GaussianBlur(values, (11, 11), 1.5)

    mean_x, mean_y = soft(x), soft(y)
    var_x, var_y = soft(x * x) - mean_x**2, soft(y * y) - mean_y**2
    both = soft(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    found = (2 * mean_x * mean_y + c1) * (2 * both + c2)
    return float(np.mean(found / ((mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2))))


def figures(clean: np.ndarray, made: np.ndarray) -> list[float]:
    """Mean and deviation of the change, SSIM and PSNR."""
    change = made.astype(np.float64) - clean
    psnr = 10 * np.log10(255**2 / np.mean(change**2))
    return [float(change.mean()), float(change.std()), ssim(clean, made), float(psnr)]


def over_seeds(draw: Callable[[np.ndarray, int], np.ndarray]) -> dict[str, list[float]]:
    """By figure its mean and standard error over seeds; `draw(photo, seed)` makes a picture."""
    clean = photos()
    rows = np.array(
        [np.mean([figures(p, draw(p, seed)) for p in clean], axis=0) for seed in range(SEEDS)]
    )
    found = np.stack([rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(SEEDS)], axis=1)
    return dict(zip(FIGURES, found.round(5).tolist(), strict=True))


def main() -> None:
    """Write the file."""
    import imagecorruptions.corruptions as peer
    from imagecorruptions import get_corruption_names
    from PIL import Image

    made_before = peer.gaussian

    def gaussian(*arguments: object, multichannel: bool = False, **options: object) -> np.ndarray:
        """scikit-image for Python 3.11 calls the argument otherwise."""
        return made_before(*arguments, channel_axis=-1 if multichannel else None, **options)

    peer.gaussian = gaussian

    def drawn(name: str, level: int) -> Callable[[np.ndarray, int], np.ndarray]:
        def draw(photo: np.ndarray, seed: int) -> np.ndarray:
            np.random.seed(seed)  # noqa: NPY002 - the peer knows no other way
            made = np.asarray(getattr(peer, name)(Image.fromarray(photo), level))
            return np.rint(made).astype(np.uint8)

        return draw

    names = sorted(get_corruption_names("all"))
    found = {n: {str(level): over_seeds(drawn(n, level)) for level in LEVELS} for n in names}
    ORACLE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

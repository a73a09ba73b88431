"""What imagecorruptions 1.1.2 makes of known scenes, kept in imagecorruptions_oracle.npz for tests that run without it.

    .venv-peers/bin/python tests/cases/oracle_imagecorruptions.py     # environment: benchmarks/peers.txt

The peer cuts fractions off when it turns its result into bytes; here they are rounded. Where it draws at random, statistics over
many draws are kept.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

ORACLE = Path(__file__).with_name("imagecorruptions_oracle.npz")
BLURS = (
    (10, 3, -44.0),
    (15, 5, -10.0),
    (15, 8, 0.0),
    (15, 12, 27.0),
    (20, 15, 45.0),
    (12, 8, -100.0),
)
DRAWS = 60


def scene(height: int, width: int) -> np.ndarray:
    """A colour scene with slopes, edges, a disc, stripes and grain, in whole numbers: the same on every platform."""
    y, x = np.mgrid[0:height, 0:width]
    sky = 90 + 120 * y // height
    road = np.where(abs(x - width // 2) * 3 < y, 70, 150)
    disc = np.where(
        (y - height // 3) ** 2 + (x - width // 4) ** 2 < (min(height, width) // 5) ** 2, 240, sky
    )
    stripes = np.where((x // 3 + y // 5) % 2 == 0, 30, 200)
    colours = np.stack(
        [np.where(y > height // 2, road, disc), disc, np.where(x > 2 * width // 3, stripes, sky)],
        axis=-1,
    )
    grain = (x * 7919 + y * 104729 + x * y * 31) % 17 - 8
    return np.clip(colours + grain[:, :, None], 0, 255).astype(np.uint8)


def statistics(image: np.ndarray) -> list[float]:
    """Mean, deviation, share of white pixels, mean step to the right and mean step down."""
    values = image.astype(np.float64)
    steps = [float(np.abs(np.diff(values, axis=axis)).mean()) for axis in (1, 0)]
    return [float(values.mean()), float(values.std()), float((image == 255).mean()), *steps]


def over_draws(draw: object, count: int = DRAWS) -> np.ndarray:
    """Mean of the statistics over draws, and under it their standard error; `draw(i)` makes an image."""
    rows = np.array([statistics(draw(i)) for i in range(count)])  # type: ignore[operator]
    return np.stack([rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(count)])


def main() -> None:
    """Write the file."""
    import imagecorruptions.corruptions as peer
    from PIL import Image

    def drawn(name: str, image: np.ndarray, level: int) -> object:
        def draw(seed: int) -> np.ndarray:
            np.random.seed(seed)  # noqa: NPY002 - the peer knows no other way
            return as_bytes(getattr(peer, name)(Image.fromarray(image), level))

        return draw

    def as_bytes(values: np.ndarray) -> np.ndarray:
        return np.rint(np.asarray(values)).astype(np.uint8)

    odd, square = scene(53, 67), scene(96, 96)
    kept: dict[str, np.ndarray] = {}
    for level in range(1, 6):
        kept[f"contrast_{level}"] = as_bytes(peer.contrast(Image.fromarray(odd), level))
        kept[f"pixelate_{level}"] = np.asarray(peer.pixelate(Image.fromarray(odd), level))
        kept[f"noise_{level}"] = over_draws(drawn("gaussian_noise", square, level))
        kept[f"snow_{level}"] = over_draws(drawn("snow", square, level))
        kept[f"snow_on_black_{level}"] = over_draws(drawn("snow", np.zeros_like(square), level))
    for i, (radius, sigma, angle) in enumerate(BLURS):
        blurred = peer._motion_blur(odd, radius=radius, sigma=sigma, angle=angle)
        kept[f"blur_{i}"] = as_bytes(np.clip(blurred, 0, 255))
    np.savez_compressed(ORACLE, **kept)


if __name__ == "__main__":
    main()

"""What peers say of pairs of images, kept in images_oracle.json for tests that run without them.

    .venv-peers/distances/bin/python tests/distances/oracle_images.py    # benchmarks/peers-distances.txt

SSIM by scikit-image 0.26.0; MS-SSIM by pytorch-msssim 1.0.0, which needs torch in that environment too, with a window of double
precision; CW-SSIM of Sampat et al. from the bands of pyrtools 1.1.1, whose filters are right to 1e-5; pyssim 0.7.1's CW-SSIM.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

ORACLE = Path(__file__).parent / "images_oracle.json"


def scene(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Waves, a dark box and grain, from 0 to 1; grey or colour."""
    rng = np.random.default_rng(seed)
    y, x = (g.reshape(g.shape + (1,) * (len(shape) - 2)) for g in np.mgrid[: shape[0], : shape[1]])
    waves = rng.uniform(0.03, 0.3, (2, *shape[2:]))
    image = 0.5 + 0.25 * np.sin(waves[0] * x + waves[1] * y) + rng.normal(0, 0.05, shape)
    image[shape[0] // 3 : shape[0] // 2, shape[1] // 4 : shape[1] // 2] *= 0.4
    return np.clip(image, 0, 1)


def pairs() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pairs of all types of pixels, sizes that are multiples of 16 as no peer agrees on others."""
    grey, colour = scene((176, 208), 0), scene((192, 176, 3), 1)
    noise = np.random.default_rng(2).normal(0, 0.1, colour.shape)

    def as_type(image: np.ndarray, top: int, dtype: Any) -> np.ndarray:
        return np.rint(np.clip(image, 0, 1) * top).astype(dtype)

    return {
        "grey, darker": (as_type(grey, 255, np.uint8), as_type(grey * 0.7, 255, np.uint8)),
        "grey, moved": (
            as_type(grey, 255, np.uint8),
            as_type(np.roll(grey, 3, axis=1), 255, np.uint8),
        ),
        "colour, noise": (
            as_type(colour, 255, np.uint8),
            as_type(colour + noise, 255, np.uint8),
        ),
        "16 bits, another scene": (
            as_type(grey, 65535, np.uint16),
            as_type(scene((176, 208), 3), 65535, np.uint16),
        ),
        "floats, inverted": (colour, 1 - colour),
    }


def local_similarity(one: np.ndarray, other: np.ndarray, window: int = 7) -> float:
    """Sampat et al. 2009, eq. 4, with K = 0, by plain sums over windows."""
    from numpy.lib.stride_tricks import sliding_window_view

    a, b = (sliding_window_view(band, (window, window)) for band in (one, other))
    cross = np.abs((a * b.conj()).sum(axis=(2, 3)))
    energy = (np.abs(a) ** 2 + np.abs(b) ** 2).sum(axis=(2, 3))
    return float(np.mean(2 * cross / energy))


def of_peers(first: np.ndarray, second: np.ndarray) -> dict[str, float]:
    """The similarities of one pair."""
    import pyrtools
    import torch
    from PIL import Image
    from pytorch_msssim import ms_ssim
    from skimage.metrics import structural_similarity
    from ssim import SSIM

    top = 1.0 if first.dtype.kind == "f" else float(np.iinfo(first.dtype).max)
    channels = [i.reshape(*i.shape[:2], -1).transpose(2, 0, 1) for i in (first, second)]
    planes = [torch.from_numpy(c.astype(np.float64))[None] for c in channels]
    weights = np.exp(-(np.arange(-5.0, 6.0) ** 2) / (2 * 1.5**2))
    window = torch.from_numpy(np.tile(weights / weights.sum(), (len(channels[0]), 1, 1, 1)))

    def bands(plane: np.ndarray) -> list[np.ndarray]:
        pyramid = pyrtools.pyramids.SteerablePyramidFreq(
            plane / top * 255, height=4, order=7, is_complex=True
        )
        return [band for key, band in pyramid.pyr_coeffs.items() if isinstance(key, tuple)]

    return {
        "ssim": float(
            structural_similarity(
                first,
                second,
                gaussian_weights=True,
                use_sample_covariance=False,
                data_range=top,
                channel_axis=2 if first.ndim == 3 else None,
            )
        ),
        "ms_ssim": float(ms_ssim(*planes, data_range=top, win=window)),
        "cw_ssim": float(
            np.mean(
                [
                    local_similarity(a, b)
                    for pair in zip(*channels, strict=True)
                    for a, b in zip(*map(bands, pair), strict=True)
                ]
            )
        ),
        "cw_ssim_pyssim": float(
            SSIM(Image.fromarray(np.rint(first / top * 255).astype(np.uint8))).cw_ssim_value(
                Image.fromarray(np.rint(second / top * 255).astype(np.uint8))
            )
        ),
    }


if __name__ == "__main__":
    found = {name: of_peers(*pair) for name, pair in pairs().items()}
    ORACLE.write_text(json.dumps(found, indent=1) + "\n")

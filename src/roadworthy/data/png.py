"""Images as PNG, lossless, 8 and 16 bit, without an image library.

>>> encode_png(np.zeros((2, 2), np.uint8))[:8]
b'\\x89PNG\\r\\n\\x1a\\n'
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

_COLOUR = {1: 0, 3: 2, 4: 6}


def encode_png(image: np.ndarray, *, compression: int = 6) -> bytes:
    """PNG bytes of a grey, RGB or RGBA image; floats in [0, 1] become 8 bit."""
    pixels = np.asarray(image)
    if pixels.dtype.kind == "f":
        pixels = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    if pixels.dtype not in (np.uint8, np.uint16) or pixels.ndim not in (2, 3):
        raise ValueError(
            f"a PNG holds 8 or 16 bit grey, RGB or RGBA; this is {pixels.dtype} of shape {pixels.shape}"
        )
    pixels = pixels if pixels.ndim == 3 else pixels[:, :, None]
    height, width, channels = pixels.shape
    depth = 8 * pixels.dtype.itemsize
    rows = pixels.astype(f">u{pixels.dtype.itemsize}").reshape(height, -1).view(np.uint8)
    # Every row starts with its filter type; 0 is none.
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, depth, _COLOUR[channels], 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(raw, compression)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

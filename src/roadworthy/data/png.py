"""Images as PNG, lossless, 8 and 16 bit, without an image library.

>>> encode_png(np.zeros((2, 2), np.uint8))[:8]
b'\\x89PNG\\r\\n\\x1a\\n'
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
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
    return SIGNATURE + b"".join(_chunk(kind, content) for kind, content in chunks)


def palette_as_grey(content: bytes) -> bytes:
    """A PNG with a palette as a grey one of the palette's indices; any other file as it is."""
    if not content.startswith(SIGNATURE) or content[25:26] != b"\x03":
        return content
    kept, at = [], len(SIGNATURE)
    while at < len(content):
        end = at + 8 + int.from_bytes(content[at : at + 4], "big")
        kind, body = content[at + 4 : at + 8], content[at + 8 : end]
        if kind == b"IHDR":
            body = body[:9] + b"\x00" + body[10:]
        if kind in (b"IHDR", b"IDAT", b"IEND"):
            kept.append(_chunk(kind, body))
        at = end + 4
    return SIGNATURE + b"".join(kept)


def _chunk(kind: bytes, content: bytes) -> bytes:
    check = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)

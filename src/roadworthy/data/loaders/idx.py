"""Images and labels in two idx files, plain or gzipped (the format of MNIST and Fashion-MNIST).

An idx file starts with two zero bytes, a byte for the type, a byte for the number of dimensions, then each dimension as a
big-endian 32-bit integer, then the values.

>>> decode_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), "labels").tolist()
[7, 9]
>>> decode_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 9]), "labels")
Traceback (most recent call last):
roadworthy.data.samples.DataError: labels: the header promises 3 values of 1 byte (shape 3), but 2 bytes follow; the file is
truncated or not whole: copy it again
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from roadworthy.data.loaders.files import located
from roadworthy.data.loaders.joining import Samples, reads
from roadworthy.data.samples import DataError
from roadworthy.data.values import IMAGE, LABEL
from roadworthy.registry import register

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@register(
    "loaders", "idx", keys=("idx", "labels"), gives={"inputs": ("image",), "targets": ("label",)}
)
@reads
def idx(
    *,
    path: str,
    labels: str | None = None,
    base: Path = Path(),
) -> Samples:
    """Images and labels in two idx files, gzipped or plain; the id of a sample is its row."""
    file = located(path, base=base, what="idx")
    images = read_idx(file)
    if images.ndim not in (3, 4):
        raise DataError(
            f"{file}: holds an array of shape {images.shape}; images (rows, height, width) were expected"
        )
    truth = None
    if labels is not None:
        label_file = located(labels, base=base, what="labels")
        truth = _labels(label_file)
        if len(truth) != len(images):
            raise DataError(
                f"{label_file}: {len(truth)} labels for the {len(images)} images of {file}; name the two files of one set"
            )
    return Samples(
        source=file,
        input_kind=IMAGE,
        inputs=images,
        target_kind=None if truth is None else LABEL,
        targets=truth,
    )


def read_idx(file: Path) -> np.ndarray:
    """The array of an idx file."""
    data = file.read_bytes()
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise DataError(
                f"{file}: the gzip data end too early or are damaged ({error}); copy the file again"
            ) from error
    return decode_idx(data, str(file))


def decode_idx(data: bytes, where: str) -> np.ndarray:
    """The array in the bytes of an idx file; header and length must agree."""
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in TYPES:
        raise DataError(
            f"{where}: starts with {data[:4].hex(' ') or 'nothing'}, which no idx file does; name an idx file"
        )
    dtype, dimensions = np.dtype(TYPES[data[2]]), data[3]
    start = 4 + 4 * dimensions
    if len(data) < start:
        raise DataError(f"{where}: ends within its header; the file is truncated: copy it again")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    count = math.prod(shape)
    if len(data) - start != count * dtype.itemsize:
        size = f"{dtype.itemsize} byte{'s' * (dtype.itemsize > 1)}"
        raise DataError(
            f"{where}: the header promises {count} values of {size} (shape {' x '.join(map(str, shape))}), but "
            f"{len(data) - start} bytes follow; the file is truncated or not whole: copy it again"
        )
    values = np.frombuffer(data, dtype=dtype, offset=start).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def _labels(file: Path) -> np.ndarray:
    values = read_idx(file)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(
            f"{file}: holds {values.dtype} of shape {values.shape}; one whole number a sample was expected. "
            "Are images and labels exchanged?"
        )
    return values.astype(np.int64)

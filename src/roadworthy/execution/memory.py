"""Freed memory is kept for the next batch instead of being handed back to the system after each.

A forward pass takes and frees tens of megabytes; glibc returns them each time, and the next batch faults every page in again:
15% of an assessment of small images. Only processes of our own do this (the command line, the workers), never a program that
imports us.
"""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""glibc's names for these settings: see mallopt(3)."""
KEPT = 256 << 20
LARGEST_ON_HEAP = 32 << 20


def keep_freed_memory() -> bool:
    """Ask the C library to keep up to 256 MB; False where it is not glibc."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT) and mallopt(_MMAP_THRESHOLD, LARGEST_ON_HEAP))

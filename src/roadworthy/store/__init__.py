"""Run folders with their records, the index of runs, and the cache of chunks."""

from roadworthy.store.cache import ChunkCache
from roadworthy.store.index import RunIndex
from roadworthy.store.runs import RunFolder, StoreError

__all__ = ["ChunkCache", "RunFolder", "RunIndex", "StoreError"]

"""Run folders with their records, and the cache of chunks."""

from roadworthy.store.cache import ChunkCache
from roadworthy.store.runs import RunFolder, StoreError, StoreUnreachable, list_runs
from roadworthy.store.shared import open_cache

__all__ = ["ChunkCache", "RunFolder", "StoreError", "StoreUnreachable", "list_runs", "open_cache"]

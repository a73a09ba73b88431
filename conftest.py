"""Property tests explore at random on a developer's machine, and repeat the same examples where a change is gated on them."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "explore")

"""Is this AI system fit for the road, and is it still?"""

from __future__ import annotations

__version__ = "0.1.0"

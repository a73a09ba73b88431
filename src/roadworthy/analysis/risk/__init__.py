"""Risk as an event tree: what may happen, how likely it is, what it costs (Torpmann-Hagen et al. 2025)."""

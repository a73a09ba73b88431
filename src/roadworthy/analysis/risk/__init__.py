"""Risk as an event tree: what may happen, how likely, what it costs; and how a shift rate is told without labels (seed 003)."""

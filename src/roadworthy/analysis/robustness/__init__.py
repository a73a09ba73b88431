"""Robustness under target circumstances (Wozniak et al. 2024), from tables and resamples alone."""

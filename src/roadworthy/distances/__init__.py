"""Distances between outputs: 0 is equal, larger is farther, always. One file each."""

"""Streams whose truth is known, and how far every estimator is off."""

"""Attacks: the smallest of changes, chosen by the subject's own gradient, that make it wrong."""

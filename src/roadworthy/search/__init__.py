"""Loops that query the subject: they vary an input, read the answer, and go on from there."""

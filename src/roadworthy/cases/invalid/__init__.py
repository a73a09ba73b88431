"""Sources of invalid inputs: images that no class fits, made without a parent.

An invalid input has no right answer. It counts as a failure if every supervisor accepts it.
"""

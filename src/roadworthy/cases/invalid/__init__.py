"""Sources of invalid inputs: images that no class fits, so that no answer to them is right."""

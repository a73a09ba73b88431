"""Components of another party, found through entry points."""

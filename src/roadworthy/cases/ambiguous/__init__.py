"""Cases that truly belong to two classes, with the distribution of their label."""

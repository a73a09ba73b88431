"""Probability of misclassification per input: partition, profile, oracle, assembly, budget."""

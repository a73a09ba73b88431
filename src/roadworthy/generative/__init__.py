"""Models that learn what inputs look like: used by cases, supervisors and reliability."""

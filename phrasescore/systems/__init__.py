"""A system, and the translator that loads it: search, scores of lists, rounds of tuning."""

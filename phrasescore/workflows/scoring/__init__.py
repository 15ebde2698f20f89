"""Scoring phrase tables, n-best lists and parallel text with features: one way for all."""

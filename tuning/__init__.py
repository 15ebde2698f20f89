"""Tuning of log-linear weights: statistics and feature matrices in, weights out."""

"""Compute log-probabilities of many pairs under a network, fast."""

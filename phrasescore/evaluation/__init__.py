"""Metrics for translations, with breakdowns."""

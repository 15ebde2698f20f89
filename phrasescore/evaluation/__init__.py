"""Metrics for translations, with breakdowns and plots."""

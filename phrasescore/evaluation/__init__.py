"""Metrics of translations, their breakdowns and plots."""

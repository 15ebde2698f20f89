"""Comparisons of translations: metrics with signatures, breakdowns, plots."""

"""Experiments: a table of systems, trained, tuned and measured by one call."""

"""Compiled code: it knows arrays, and nothing else of the house."""

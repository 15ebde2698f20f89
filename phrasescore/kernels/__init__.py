"""Compiled code over arrays."""

"""The version, apart from the public API, so that every room may know it."""

__version__ = "0.2.0"

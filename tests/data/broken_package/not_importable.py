"""A module that cannot be imported."""

raise ImportError("expected another version of something")

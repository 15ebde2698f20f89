"""Targets that networks make up: the best ones by beam search, and random ones."""

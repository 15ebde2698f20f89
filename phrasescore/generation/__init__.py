"""Generate targets with networks: the best ones by beam search, or random ones."""

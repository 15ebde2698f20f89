"""Language models: the feed-forward network, n-gram models, perplexity, selection."""

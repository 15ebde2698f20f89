"""Language models: feed-forward networks, n-gram models, perplexity and data selection."""

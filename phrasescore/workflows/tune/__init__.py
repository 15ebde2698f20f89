"""Find the weights of the log-linear model, on n-best lists or in rounds with a decoder."""

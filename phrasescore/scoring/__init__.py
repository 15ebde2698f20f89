"""From a network and many pairs to log-probabilities, fast."""

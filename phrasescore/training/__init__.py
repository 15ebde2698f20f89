"""From phrase pairs to a trained network."""

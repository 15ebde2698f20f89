"""The decoders of the networks for scoring over trees."""

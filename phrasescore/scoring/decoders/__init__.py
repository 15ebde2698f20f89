"""The decoders of the networks, one file a kind, for scoring over trees."""

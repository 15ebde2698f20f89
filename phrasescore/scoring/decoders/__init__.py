"""The networks' decoders, for scoring over prefix trees."""

"""The formats of Moses: phrase tables, n-best lists, configuration; and its search."""

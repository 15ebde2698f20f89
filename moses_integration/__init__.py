"""What Moses reads and writes: phrase tables, n-best lists, configuration."""

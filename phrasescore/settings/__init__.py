"""Settings of networks and their training, read from TOML."""

"""Programs that translate and write n-best lists."""

"""Where work runs: threads and processes whose results come in order."""

"""Networks, one file a paper."""

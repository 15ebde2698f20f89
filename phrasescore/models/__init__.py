"""Networks, with one file per paper."""

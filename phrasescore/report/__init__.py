"""The report: builds tables and figures from values, and a page from these."""

SEED = 1  # of all random choices: equal inputs give equal reports

"""The report: builds tables and figures from values, and a page from these."""

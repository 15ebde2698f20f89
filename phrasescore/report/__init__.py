"""The report: from values to blocks to a page."""

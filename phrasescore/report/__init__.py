"""The report: values in, blocks out, and a page of them."""

"""The verbs, which read and write files: one module per verb, also available as functions."""

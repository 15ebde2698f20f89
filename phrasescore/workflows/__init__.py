"""What a user can do, from files to files: one module per verb, and the same as functions."""

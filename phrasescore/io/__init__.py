"""Files: text input, output files that appear whole or not at all, folders, corpora."""

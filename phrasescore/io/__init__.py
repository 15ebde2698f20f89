"""Files: text in, files out whole or not at all, resumable output, folders, corpora."""

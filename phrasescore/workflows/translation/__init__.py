"""Translate with a whole tuned system: search, rescoring and reranking in one process."""

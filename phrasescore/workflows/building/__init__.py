"""Build phrase-based systems and n-gram models from text."""

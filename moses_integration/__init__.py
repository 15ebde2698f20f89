"""Phrase tables, n-best lists and configuration files in Moses' formats, and a search like Moses'.

Invalid input raises a DataError, or a ConfigError for a moses.ini, that names the file and line.
"""

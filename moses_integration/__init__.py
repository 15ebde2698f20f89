"""The formats of Moses: phrase tables, n-best lists, configuration; and its search.

Invalid input raises DataError, or ConfigError for a moses.ini, with file and line.
"""

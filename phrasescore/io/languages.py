"""The codes of languages: the same rule in options, moses.ini and TOML files."""

import re

from phrasescore.errors import ArgumentError


def language_code(text: str) -> str | None:
    """Return the code of a language, such as ``en`` for ``EN`` or ``en-GB``; None if it is none."""
    found = re.fullmatch("([a-z]{2,3})([-_][a-z0-9]+)*", text.lower())
    return found[1] if found else None


def checked_language(option: str, text: str) -> str:
    """Return the code of a language that an option has; see `language_code`."""
    code = language_code(text)
    if code is None:
        raise ArgumentError(f"{option}: expected the code of a language, such as en, got {text!r}")
    return code

"""How a system's text is prepared, as comments of its moses.ini record it."""

import contextlib
import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from phrasescore.arguments import language_code
from phrasescore.errors import ConfigError, shown_path
from phrasescore.io.text import shorten

SETTING = re.compile(r"[ \t]*#[ \t]*phrasescore:(.*)", re.DOTALL)


@dataclass(frozen=True)
class TextSettings:
    """How a system's text is prepared.

    A moses.ini records each setting in a comment, which Moses ignores:
    ``# phrasescore: KEY = VALUE``, with the value in TOML.
    """

    characters: bool = False  # whether the tokens are characters; see `phrasescore.io.characters`
    tokenize: str = ""  # the languages of source and target, "fr en"; empty for none
    lowercase: bool = False
    truecase_source: str = ""  # paths of Moses' truecasing models; empty for none
    truecase_target: str = ""
    keeps_known_case: bool = False  # as truecase.perl; up to version 0.3, `build` did not

    def lines(self) -> list[str]:
        """Return the comments that record the settings; defaults need none."""
        return [
            f"# phrasescore: {key} = {to_toml(value)}"
            for key, value in asdict(self).items()
            if value
        ]

    def languages(self) -> list[str | None]:
        """Return the codes of the languages of source and target; None without a tokeniser."""
        return [language_code(each) for each in (self.tokenize or " ").split(" ")]

    def problem(self) -> str | None:
        """Return why the settings are invalid, or None."""
        languages = self.languages()
        if len(languages) != 2 or (self.tokenize and None in languages):
            wanted = "expected the languages of source and target in tokenize, such as 'fr en'"
            return f"{wanted}; found {shorten(self.tokenize)}"
        if self.lowercase and (self.truecase_source or self.truecase_target):
            return "expected either lowercase or truecase_source and truecase_target, found both"
        return None


def read_settings(path: str, lines: Iterable[str]) -> TextSettings:
    """Return the settings that comments of a moses.ini record; all others have their defaults.

    :raises ConfigError: if a comment is no valid setting.
    """
    defaults: dict[str, Any] = asdict(TextSettings())
    settings = TextSettings()
    for row, text in enumerate(lines, start=1):
        if (match := SETTING.fullmatch(text)) is None:
            continue
        setting = match[1].strip()
        wanted = f"expected KEY = VALUE in TOML, once for {', '.join(defaults)}"
        problem: str | None = f"{wanted}; found {shorten(setting)}"
        with contextlib.suppress(ValueError, RecursionError):  # TOMLDecodeError is a ValueError
            ((key, value),) = tomllib.loads(setting).items()
            if key in defaults and type(value) is type(defaults.pop(key)):
                settings = replace(settings, **{key: value})
                problem = settings.problem()
        if problem is not None:
            where = f"{shown_path(path)}:{row}"
            raise ConfigError(where, "# phrasescore", problem)
    return settings


def to_toml(value: object) -> str:
    """Return a string, number, truth value or list of them as TOML."""
    # Apart from this character, strings in JSON are strings in TOML.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

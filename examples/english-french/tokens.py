"""Aligned text: tokens that carry links, and the last touches on each language.

A ``Link`` is one unit of meaning. Tokens of the two sides that share a link are aligned. The
grammar writes French with full words ("de le_ ami"); ``finish_french`` contracts and elides them.
"""

from typing import NamedTuple

import english_forms
import french_forms

_ELIDING_WORDS = "le la de je me te se ne que jusque lorsque puisque ce"
ELIDING = frozenset(_ELIDING_WORDS.split())
CONTRACTED = {
    ("à", "le_"): "au",
    ("à", "les_"): "aux",
    ("de", "le_"): "du",
    ("de", "les_"): "des",
}


class Link:
    """One unit of meaning; compared by identity."""


class Token(NamedTuple):
    """A word with its links."""

    text: str
    links: frozenset[Link]


class Pair(NamedTuple):
    """The same thing in both languages."""

    english: list[Token]
    french: list[Token]


def words(text: str, *links: Link) -> list[Token]:
    """Return the tokens of a text, all with the same links."""
    return [Token(word, frozenset(links)) for word in text.split()]


def unit(english: str, french: str) -> Pair:
    """Return an expression whose words are all linked with each other."""
    link = Link()
    return Pair(words(english, link), words(french, link))


def literal(text: str) -> Pair:
    """Return words given as ``english=french`` in an order that both share; either may be empty.

    >>> [[t.text for t in side] for side in literal("i_think=je~pense that=que")]
    [['i', 'think', 'that'], ['je', 'pense', 'que']]
    """
    pair = Pair([], [])
    for part in text.split():
        english, _, french = part.partition("=")
        pair = join(pair, unit(english.replace("_", " "), french.replace("~", " ")))
    return pair


def join(*pairs: Pair) -> Pair:
    """Return the pairs one after the other on both sides."""
    return Pair(
        [token for pair in pairs for token in pair.english],
        [token for pair in pairs for token in pair.french],
    )


def finish_english(tokens: list[Token]) -> list[Token]:
    """Write ``an`` for ``a`` where the next word asks for it."""
    result = []
    for token, following in zip(tokens, [*tokens[1:], Token("", frozenset())], strict=True):
        if token.text == "a" and english_forms.has_vowel_sound(following.text):
            token = token._replace(text="an")
        result.append(token)
    return result


def finish_french(tokens: list[Token]) -> list[Token]:
    """Contract (``de le_`` to ``du``) and elide (``je ai`` to ``j' ai``).

    Articles end in ``_`` so that the pronouns le, la, les are never contracted. ``des_`` is the
    plural indefinite article and ``part_m``, ``part_f`` the partitive; both vanish after ``de``.
    """
    return _elide(_contract(_partitive(tokens)))


def _partitive(tokens: list[Token]) -> list[Token]:
    result: list[Token] = []
    for token, following in zip(tokens, [*tokens[1:], Token("", frozenset())], strict=True):
        if token.text not in ("des_", "part_m", "part_f"):
            result.append(token)
        elif result and result[-1].text == "de":
            result[-1] = Token("de", result[-1].links | token.links)
        elif token.text == "des_":
            result.append(token._replace(text="des"))
        elif token.text == "part_m" and not french_forms.is_vowel_initial(following.text):
            result.append(token._replace(text="du"))
        else:
            result += [token._replace(text="de"), token._replace(text="la_")]
    return result


def _contract(tokens: list[Token]) -> list[Token]:
    result: list[Token] = []
    for token, following in zip(tokens, [*tokens[1:], Token("", frozenset())], strict=True):
        previous = result[-1].text if result else ""
        contracted = CONTRACTED.get((previous, token.text))
        vowel = token.text == "le_" and french_forms.is_vowel_initial(following.text)
        if contracted and not vowel:
            result[-1] = Token(contracted, result[-1].links | token.links)
        else:
            result.append(token)
    return result


def _elide(tokens: list[Token]) -> list[Token]:
    result = []
    for token, following in zip(tokens, [*tokens[1:], Token("", frozenset())], strict=True):
        text, next_text = token.text.removesuffix("_"), following.text.removesuffix("_")
        if text in ELIDING and french_forms.is_vowel_initial(next_text):
            text = text[:-1] + "'"
        elif text == "si" and next_text in ("il", "ils"):
            text = "s'"
        result.append(Token(text, token.links))
    return result


def alignment(pair: Pair) -> list[tuple[int, int]]:
    """Return the linked positions (English, French), sorted."""
    return [
        (i, j)
        for i, english in enumerate(pair.english)
        for j, french in enumerate(pair.french)
        if english.links & french.links
    ]


def finish(pair: Pair) -> Pair:
    """Return the pair with both sides in their final form."""
    return Pair(finish_english(pair.english), finish_french(pair.french))

"""The word lists of the example, read from the text files beside this module."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import english_forms
import french_forms

HUMAN = ("family", "person")
THING = ("object", "readable", "clothing", "device")


@dataclass(frozen=True)
class Noun:
    """A noun with both plurals; forms of several words are tuples."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    gender: str
    classes: frozenset[str]
    flags: frozenset[str]


@dataclass(frozen=True)
class Adjective:
    """An adjective; ``forms`` are masculine, feminine, their plurals, masculine before a vowel."""

    english: str
    forms: tuple[str, str, str, str, str]
    classes: frozenset[str]
    flags: frozenset[str]

    def french(self, gender: str, plural: bool, before: str = "") -> str:
        """Return the form that agrees; ``before`` is the next word where that matters."""
        if gender == "m" and not plural and before and french_forms.is_vowel_initial(before):
            return self.forms[4]
        return self.forms[(gender == "f") + 2 * plural]


@dataclass(frozen=True)
class Verb:
    """A verb with what stands around it in each language."""

    english: str
    # Words after the verb: a preposition ("look at"), or a particle that a pronoun may precede.
    english_tail: tuple[str, ...]
    separable: bool
    # The English complement of a modal is a form in -ing.
    gerund: bool
    infinitive: str
    reflexive: bool
    french_tail: tuple[str, ...]
    preposition: str
    kind: str
    objects: tuple[str, ...]
    subjects: tuple[str, ...]
    flags: frozenset[str]


@dataclass(frozen=True)
class Phrase:
    """A fixed expression on both sides."""

    english: str
    french: str
    flag: str


@dataclass
class Lexicon:
    """All lists; the order of each is its order of frequency."""

    nouns: list[Noun] = field(default_factory=list)
    adjectives: list[Adjective] = field(default_factory=list)
    verbs: list[Verb] = field(default_factory=list)
    phrases: dict[str, list[Phrase]] = field(default_factory=dict)

    def noun(self, english: str, gender: str = "") -> Noun:
        """Return the first noun with this English form (and gender).

        :raises KeyError: if there is none.
        """
        for noun in self.nouns:
            if noun.english == english and gender in ("", noun.gender):
                return noun
        raise KeyError(english)

    def nouns_of(self, classes: tuple[str, ...]) -> list[Noun]:
        """Return the nouns of the classes; a class may be a noun itself, in English."""
        wanted = {part for name in classes for part in _expand(name)}
        known = {name for noun in self.nouns for name in noun.classes}
        single = wanted - known
        return [noun for noun in self.nouns if wanted & noun.classes or noun.english in single]

    def adjectives_of(self, noun: Noun) -> list[Adjective]:
        """Return the adjectives that can qualify the noun."""
        return [adjective for adjective in self.adjectives if adjective.classes & noun.classes]

    def adjective(self, english: str, french: str = "") -> Adjective:
        """Return the first adjective with these forms.

        :raises KeyError: if there is none.
        """
        for adjective in self.adjectives:
            if adjective.english == english and french in ("", adjective.forms[0]):
                return adjective
        raise KeyError(english)

    def verb(self, english: str, infinitive: str = "", kind: str = "") -> Verb:
        """Return the first verb with these forms, ``english`` with its tail.

        :raises KeyError: if there is none.
        """
        for verb in self.verbs:
            words = " ".join((verb.english, *verb.english_tail))
            if words == english and infinitive in ("", verb.infinitive) and kind in ("", verb.kind):
                return verb
        raise KeyError(english)


def _expand(name: str) -> tuple[str, ...]:
    return {"human": HUMAN, "thing": THING}.get(name, (name,))


def _sections(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the names of the section and the fields of each line."""
    names: list[str] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            names = line.strip("[]").split()
        elif line and not line.startswith("#"):
            parts = [part.strip() for part in line.split(" ; ")]
            yield names, parts + [""] * (4 - len(parts))


def _read_noun(names: list[str], parts: list[str]) -> Noun:
    english, _, english_plural = parts[0].partition("/")
    french, gender = parts[1].rsplit(" ", 1)
    french, _, french_plural = french.replace("+", " ").partition("/")
    flags = parts[2].split()
    classes = names + [flag[1:] for flag in flags if flag.startswith("+")]
    if flags and {"pl", "enpl", "bareplural"} & set(flags):
        english_plural = english
    if "pl" in flags or "frpl" in flags or "bareplural" in flags:
        french_plural = french
    return Noun(
        english,
        english_plural or english_forms.plural(english),
        french,
        french_plural or french_forms.noun_plural(french),
        gender,
        frozenset(classes),
        frozenset(flag for flag in flags if not flag.startswith("+")),
    )


def _read_adjective(names: list[str], parts: list[str]) -> Adjective:
    flags = frozenset(parts[2].split())
    masculine, *rest = parts[1].replace("+", " ").split("/")
    if "inv" in flags:
        forms = (masculine,) * 5
    else:
        feminine = rest[0] if rest else french_forms.feminine(masculine)
        plural = rest[1] if len(rest) > 1 else french_forms.noun_plural(masculine)
        feminine_plural = rest[2] if len(rest) > 2 else feminine + "s"
        forms = (masculine, feminine, plural, feminine_plural, rest[3] if rest[3:] else masculine)
    return Adjective(parts[0], forms, frozenset(names), flags)


def _read_verb(names: list[str], parts: list[str]) -> Verb:
    english, *tail = parts[0].removesuffix("+ing").replace("+", "").split()
    french = parts[1].split("+")
    reflexive = french[0] in ("se", "s'")
    french = french[reflexive:]
    preposition = french.pop() if french[-1] in ("à", "de") else ""
    modal = names[0] in ("modal", "motion")
    return Verb(
        english,
        tuple(word for word in tail if not (names[0] == "modal" and word == "to")),
        " +" in parts[0],
        parts[0].endswith("+ing"),
        french[0],
        reflexive,
        tuple(french[1:]),
        preposition,
        names[0],
        () if modal or names[0] == "intransitive" else tuple(parts[2].split()),
        tuple(parts[2].split()) if names[0] == "intransitive" else HUMAN,
        frozenset(parts[2 if modal else 3].split()),
    )


def read_lexicon(folder: Path = Path(__file__).parent) -> Lexicon:
    """Read the four word lists."""
    lexicon = Lexicon()
    for names, parts in _sections(folder / "nouns.txt"):
        lexicon.nouns.append(_read_noun(names, parts))
    for names, parts in _sections(folder / "adjectives.txt"):
        lexicon.adjectives.append(_read_adjective(names, parts))
    for names, parts in _sections(folder / "verbs.txt"):
        lexicon.verbs.append(_read_verb(names, parts))
    for names, parts in _sections(folder / "phrases.txt"):
        lexicon.phrases.setdefault(names[0], []).append(Phrase(parts[0], parts[1], parts[2]))
    return lexicon

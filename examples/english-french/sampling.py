"""Random choices of the example: words by a Zipf law, noun phrases, times and places that fit."""

import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

from lexicon import Adjective, Lexicon, Noun, Phrase, Verb
from phrases import PRONOUNS, NounPhrase, named, noun_phrase, pronoun, with_preposition
from tokens import Pair, join, unit

Item = TypeVar("Item")
_SUBJECTS_WORDS = "i_m he she i_f we tu_m they_m vous they_f tu_f"
SUBJECTS = tuple(_SUBJECTS_WORDS.split())
# Determiners of a countable noun with their weights, singular and plural.
SINGULAR = {"definite": 9, "indefinite": 7, "this": 3, "possessive": 5, "that": 1, "another": 1}
PLURAL = {"definite": 4, "indefinite": 4, "some": 2, "these": 2, "possessive": 3, "number": 4,
          "quantity": 4, "all": 1}  # fmt: skip
MASS = {"some": 8, "definite": 4, "container": 3, "this": 2, "possessive": 1, "quantity": 2}


class Sampler:
    """Draws words and phrases; all randomness comes from the one generator it is given."""

    def __init__(self, lexicon: Lexicon, generator: random.Random) -> None:
        """Keep the word lists and the source of randomness."""
        self.lexicon = lexicon
        self.random = generator

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.random.random() < probability

    def weighted(self, weights: dict[str, int]) -> str:
        """Return a key, drawn by its weight."""
        total = list(accumulate(weights.values()))
        return list(weights)[bisect(total, self.random.random() * total[-1])]

    def zipf(self, items: Sequence[Item]) -> Item:
        """Return an item; the weight of rank r (from 0) is 1 / (r + 2)."""
        total = list(accumulate(1 / (rank + 2) for rank in range(len(items))))
        return items[bisect(total, self.random.random() * total[-1])]

    def phrase(self, kind: str) -> Phrase:
        """Return a fixed expression of a kind."""
        return self.zipf(self.lexicon.phrases[kind])

    def fixed(self, kind: str) -> Pair:
        """Return a fixed expression as an aligned unit."""
        phrase = self.phrase(kind)
        return unit(phrase.english, phrase.french)

    def verb(self, kind: str) -> Verb:
        """Return a verb of a kind."""
        return self.zipf([verb for verb in self.lexicon.verbs if verb.kind == kind])

    def noun(self, classes: tuple[str, ...]) -> Noun:
        """Return a noun: first one of the classes, then a noun by its rank in it."""
        known = {name for noun in self.lexicon.nouns for name in noun.classes} | {"human", "thing"}
        words = tuple(name for name in classes if name not in known)
        choices: list[tuple[str, ...]] = [(name,) for name in classes if name in known]
        if words:
            choices.append(words)
        return self.zipf(self.lexicon.nouns_of(self.random.choice(choices)))

    def adjective(self, noun: Noun, predicate: bool = False) -> Adjective:
        """Return an adjective that fits the noun, before it or after "be"."""
        barred = "attr" if predicate else "pred"
        fitting = self.lexicon.adjectives_of(noun)
        return self.zipf([adjective for adjective in fitting if barred not in adjective.flags])

    def pronoun_key(self) -> str:
        """Return the key of a personal pronoun."""
        return self.zipf(SUBJECTS)

    def subject(self) -> NounPhrase:
        """Return somebody: a pronoun, a name or a noun phrase."""
        kind = self.weighted({"pronoun": 11, "name": 3, "family": 4, "person": 3})
        if kind == "pronoun":
            return pronoun(self.pronoun_key())
        if kind == "name":
            return self.name()
        return self.noun_phrase(self.noun((kind,)), subject=True)

    def name(self) -> NounPhrase:
        """Return a first name."""
        kind = self.random.choice(["male", "female"])
        return named(self.phrase(kind), kind[0])

    def noun_phrase(
        self,
        noun: Noun,
        owner: str = "",
        negated: bool = False,
        general: bool = False,
        subject: bool = False,
        adjectives: bool = True,
        definite: bool = False,
    ) -> NounPhrase:
        """Return a noun phrase with a determiner that fits the noun.

        :param owner: who a possessive refers to; a random person if empty.
        :param general: the verb takes kinds ("i like cats"), which French puts with "les".
        :param definite: no indefinite, numeral or quantity.
        """
        flags = noun.flags
        if flags & {"bare", "bareplural", "noarticle"} and "destination" not in noun.classes:
            kind = "none" if "noarticle" in flags else "general"
            return noun_phrase(noun, kind, "bareplural" in flags)
        chosen: tuple[Adjective, ...] = ()
        rate = 0.12 if subject else 0.24
        if adjectives and self.lexicon.adjectives_of(noun) and self.chance(rate):
            chosen = (self.adjective(noun),)
        owner = owner or self.pronoun_key()
        if "mass" in flags:
            return self._mass(noun, owner, negated, general, chosen, definite)
        always_plural = bool(flags & {"pl", "plonly"})
        only_singular = bool(flags & {"one", "sing", "mass"})
        plural = always_plural or (not only_singular and self.chance(0.3))
        if noun.english in ("wife", "husband") and PRONOUNS[owner].row in (3, 5):
            owner = "i_m" if noun.english == "wife" else "i_f"
        if "family" in noun.classes:
            plural = always_plural or (not only_singular and self.chance(0.12))
            return noun_phrase(noun, "possessive", plural, chosen, owner)
        if general and "human" not in noun.classes and self.chance(0.6) and not only_singular:
            return noun_phrase(noun, "general", True, chosen)
        return self._countable(noun, owner, negated, plural, chosen, definite or subject)

    def _mass(
        self,
        noun: Noun,
        owner: str,
        negated: bool,
        general: bool,
        chosen: tuple[Adjective, ...],
        definite: bool,
    ) -> NounPhrase:
        if general and self.chance(0.8):
            return noun_phrase(noun, "general", False, chosen)
        kind = "definite" if definite else self.weighted(MASS)
        if negated and kind in ("container", "quantity"):
            kind = "some"
        quantity = None
        if kind == "container":
            fitting = [p for p in self.lexicon.phrases["container"] if p.flag in noun.classes]
            quantity, chosen = self.zipf(fitting), ()
        elif kind == "quantity":
            phrases = self.lexicon.phrases["quantity"]
            quantity, chosen = self.zipf([p for p in phrases if p.flag in ("any", "mass")]), ()
        return noun_phrase(noun, kind, False, chosen, owner, quantity, negated)

    def _countable(
        self,
        noun: Noun,
        owner: str,
        negated: bool,
        plural: bool,
        chosen: tuple[Adjective, ...],
        definite: bool,
    ) -> NounPhrase:
        kind = self.weighted(PLURAL if plural else SINGULAR)
        fixed = {"abstract", "topic"} & noun.classes and {"sing", "pl"} & noun.flags
        if kind == "all" and not definite:
            kind = "definite"
        if negated and kind in ("number", "quantity", "another"):
            kind = "definite"
        if fixed or (definite and kind in ("indefinite", "some", "another", "quantity", "number")):
            kind = "definite"
        public = {"building", "place", "nature", "person"} & noun.classes
        if kind == "possessive" and (public or "nopos" in noun.flags):
            kind = "definite"
        if kind in ("number", "quantity") and "pl" in noun.flags:
            kind = "possessive"
        quantity = None
        if kind == "number":
            quantity = self.phrase("number")
        elif kind == "quantity":
            phrases = self.lexicon.phrases["quantity"]
            quantity = self.zipf([p for p in phrases if p.flag in ("any", "count")])
        kind = "this" if kind == "these" else kind
        return noun_phrase(noun, kind, plural, chosen, owner, quantity, negated)

    def time(self, tense: str) -> Pair | None:
        """Return an expression of time that fits an English tense, or None."""
        kind = {
            "present": "habit", "progressive": "now", "past": "past", "future": "future",
            "near": "future", "was": "clock", "used": "habit",
        }.get(tense)  # fmt: skip
        if kind in ("past", "future") and self.chance(0.15):
            kind = "clock"
        return self.fixed(kind) if kind else None

    def where(self) -> Pair:
        """Return "in the garden" / "dans le jardin" and the like."""
        noun = self.noun(("place",))
        adjectives = (self.adjective(noun),) if self.chance(0.15) else ()
        return with_preposition("in", "dans", noun_phrase(noun, "definite", False, adjectives))

    def at(self) -> Pair:
        """Return "at the station" / "à la gare" and the like."""
        noun = self.noun(("destination",))
        if self.chance(0.25):
            return unit("at home", "à la_ maison")
        return self._destination(noun, "at", "à")

    def _destination(self, noun: Noun, english: str, french: str) -> Pair:
        phrase = noun_phrase(noun, "general" if "bare" in noun.flags else "definite")
        return with_preposition(english, french, phrase)

    def goal(self, direction: str, far: bool = False) -> Pair:
        """Return a city, country or place with the preposition of a direction.

        :param direction: "to", "in" or "from"; French has à, en, au, aux, dans, de, du, des.
        :param far: only cities and countries.
        """
        kind = self.weighted({"city": 4, "country": 4, "destination": 0 if far else 6})
        if kind == "destination":
            english = "at" if direction == "in" else direction
            french = "de" if direction == "from" else "à"
            return self._destination(self.noun(("destination",)), english, french)
        phrase = self.phrase(kind)
        if kind == "city":
            pair = unit(phrase.english, phrase.french)
            return join(unit(direction, "de" if direction == "from" else "à"), pair)
        feminine = phrase.flag == "f" or (phrase.french[0] in "aeiou" and phrase.flag != "p")
        if feminine:
            french = "de" if direction == "from" else "en"
            return join(unit(direction, french), unit(phrase.english, phrase.french))
        article = "les_" if phrase.flag == "p" else "le_"
        preposition = "de" if direction == "from" else "à"
        name = unit(phrase.english, f"{article} {phrase.french}")
        return join(unit(direction, preposition), name)

    def country(self) -> NounPhrase:
        """Return a country as an object: bare in English, with its article in French."""
        phrase = self.phrase("country")
        article = {"p": "les_", "m": "le_", "f": "la_"}[phrase.flag]
        pair = unit(phrase.english, f"{article} {phrase.french}")
        return NounPhrase(pair, 5 if phrase.flag == "p" else 2, phrase.flag, False)

    def city(self) -> NounPhrase:
        """Return a city as an object."""
        phrase = self.phrase("city")
        return NounPhrase(unit(phrase.english, phrase.french), 2, "f", False)


def object_pronoun(phrase: NounPhrase) -> NounPhrase:
    """Return the pronoun that stands for a phrase named before."""
    return pronoun(phrase.reference())


def other_person(sampler: Sampler, subject: NounPhrase) -> NounPhrase:
    """Return a pronoun for a person other than the subject ("i see you", never "i see me")."""
    person = {0: 1, 3: 1, 1: 2, 4: 2}
    mine = person.get(subject.index, 3) if subject.pronoun else 3
    keys = []
    for key in SUBJECTS:
        theirs = person.get(PRONOUNS[key].row, 3)
        if mine == 3 or theirs != mine:
            keys.append(key)
    return pronoun(sampler.zipf(keys))

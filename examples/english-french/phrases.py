"""Noun phrases and pronouns of the example, in both languages at once."""

from dataclasses import dataclass
from typing import NamedTuple

import french_forms
from lexicon import HUMAN, Adjective, Noun, Phrase
from tokens import Link, Pair, Token, join, unit, words


class PronounForms(NamedTuple):
    """One pronoun: English subject, object, possessive; French subject, clitics, stressed."""

    english: str
    english_object: str
    english_possessive: str
    french: str
    direct: str
    indirect: str
    stressed: str
    row: int
    gender: str


def _pronoun(text: str) -> PronounForms:
    parts = text.split()
    english, english_object, possessive, french, direct, indirect, stressed = parts[:7]
    return PronounForms(
        english, english_object, possessive, french, direct, indirect, stressed,
        row=int(parts[7]), gender=parts[8],
    )  # fmt: skip


PRONOUNS = {
    "i_m": _pronoun("i me my je me me moi 0 m"),
    "i_f": _pronoun("i me my je me me moi 0 f"),
    "tu_m": _pronoun("you you your tu te te toi 1 m"),
    "tu_f": _pronoun("you you your tu te te toi 1 f"),
    "he": _pronoun("he him his il le lui lui 2 m"),
    "she": _pronoun("she her her elle la lui elle 2 f"),
    "it_m": _pronoun("it it its il le lui lui 2 m"),
    "it_f": _pronoun("it it its elle la lui elle 2 f"),
    "we": _pronoun("we us our nous nous nous nous 3 m"),
    "vous": _pronoun("you you your vous vous vous vous 4 m"),
    "they_m": _pronoun("they them their ils les leur eux 5 m"),
    "they_f": _pronoun("they them their elles les leur elles 5 f"),
}
REFLEXIVE = ("me", "te", "se", "nous", "vous", "se")
POSSESSIVE = (
    ("mon", "ma", "mes"),
    ("ton", "ta", "tes"),
    ("son", "sa", "ses"),
    ("notre", "notre", "nos"),
    ("votre", "votre", "vos"),
    ("leur", "leur", "leurs"),
)


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase or pronoun; ``index`` is its row in a conjugation table (0 to 5)."""

    pair: Pair
    index: int
    gender: str
    human: bool
    # The key in PRONOUNS where this is a pronoun.
    pronoun: str = ""

    @property
    def plural(self) -> bool:
        """Return whether it is in the plural."""
        return self.index > 2

    def reference(self) -> str:
        """Return the key of the pronoun that stands for this phrase."""
        if self.pronoun:
            return self.pronoun
        if self.plural:
            return "they_" + self.gender
        if self.human:
            return "he" if self.gender == "m" else "she"
        return "it_" + self.gender


def pronoun(key: str) -> NounPhrase:
    """Return a pronoun as subject."""
    forms = PRONOUNS[key]
    pair = unit(forms.english, forms.french)
    return NounPhrase(pair, forms.row, forms.gender, key[:2] != "it", key)


def named(phrase: Phrase, gender: str) -> NounPhrase:
    """Return the name of a person."""
    return NounPhrase(unit(phrase.english, phrase.french), 2, gender, True)


def _french_determiner(
    kind: str, noun: Noun, plural: bool, following: str, owner: str, preposed: bool
) -> str:
    vowel = french_forms.is_vowel_initial(following)
    feminine = noun.gender == "f"
    if kind in ("definite", "general"):
        return "les_" if plural else "la_" if feminine else "le_"
    if kind == "indefinite":
        if plural:
            return "de" if preposed else "des_"
        return "une" if feminine else "un"
    if kind == "some":
        return "des_" if plural else "part_" + noun.gender
    if kind in ("this", "that"):
        return "ces" if plural else "cette" if feminine else "cet" if vowel else "ce"
    if kind == "possessive":
        forms = POSSESSIVE[PRONOUNS[owner].row]
        return forms[2] if plural else forms[1] if feminine and not vowel else forms[0]
    if kind == "which":
        return ("quel" + "le" * feminine) + "s" * plural
    if kind == "each":
        return "chaque"
    if kind == "another":
        return "d' autres" if plural else "une autre" if feminine else "un autre"
    if kind == "all":
        return "toutes les_" if feminine else "tous les_"
    return {"none": "", "de": "de"}[kind]


def _english_determiner(kind: str, plural: bool, owner: str) -> str:
    table = {
        "definite": "the",
        "indefinite": "" if plural else "a",
        "this": "these" if plural else "this",
        "that": "those" if plural else "that",
        "another": "other" if plural else "another",
        "all": "all the",
        "each": "each",
        "which": "which",
        "some": "some",
        "possessive": PRONOUNS[owner].english_possessive if owner else "",
    }
    return table.get(kind, "")


def noun_phrase(
    noun: Noun,
    determiner: str = "definite",
    plural: bool = False,
    adjectives: tuple[Adjective, ...] = (),
    owner: str = "",
    quantity: Phrase | None = None,
    negated: bool = False,
) -> NounPhrase:
    """Return a noun phrase.

    :param determiner: definite, indefinite, some, this, that, possessive, which, each, another,
        all, general (bare in English, definite in French), none.
    :param owner: the key of the pronoun that owns it, for ``possessive``.
    :param quantity: a numeral or a quantity ("beaucoup de") instead of or after the determiner.
    :param negated: the phrase is the object of a negated verb, where the French indefinite and
        partitive articles become ``de`` and English has "any" for "some".
    """
    head = Link()
    before = [a for a in adjectives if "before" in a.flags]
    after = [a for a in adjectives if "before" not in a.flags]
    french = noun.french_plural if plural else noun.french
    before_forms: list[Token] = []
    after_forms: list[Token] = []
    english_forms: list[Token] = []
    following = french
    for adjective in reversed(before):
        link = Link()
        form = adjective.french(noun.gender, plural, following)
        before_forms[:0] = words(form, link)
        english_forms[:0] = words(adjective.english, link)
        following = form
    for adjective in after:
        link = Link()
        after_forms += words(adjective.french(noun.gender, plural), link)
        english_forms[:0] = words(adjective.english, link)
    if quantity:
        determiner = determiner if determiner in ("definite", "possessive", "this") else "none"
    kind = determiner
    if negated and determiner in ("indefinite", "some"):
        kind = "de"
    link = Link()
    article = _english_determiner(determiner, plural, owner)
    if negated and determiner == "some":
        article = "any"
    french_article = _french_determiner(kind, noun, plural, following, owner, bool(before))
    link = link if article else head
    pair = Pair(words(article, link), words(french_article, link))
    if quantity:
        pair = join(pair, unit(quantity.english, quantity.french))
    text = noun.english_plural if plural else noun.english
    pair = Pair(
        pair.english + english_forms + words(text, head),
        pair.french + before_forms + words(french, head) + after_forms,
    )
    plural = plural or bool({"pl", "bareplural", "frpl"} & noun.flags)
    return NounPhrase(pair, 5 if plural else 2, noun.gender, bool(noun.classes & set(HUMAN)))


def of(thing: NounPhrase, owner: NounPhrase) -> NounPhrase:
    """Return "the owner 's thing" / "la chose du propriétaire"; ``thing`` has a definite article.

    The English article of the thing disappears, and the French one hangs on the possessive.
    """
    link = Link()
    article, *rest = thing.pair.french
    pair = Pair(
        owner.pair.english
        + words("'" if _ends_in_s(owner) else "'s", link)
        + thing.pair.english[1:],
        [Token(article.text, rest[0].links), *rest, *words("de", link), *owner.pair.french],
    )
    return NounPhrase(pair, thing.index, thing.gender, thing.human)


def _ends_in_s(owner: NounPhrase) -> bool:
    return owner.plural and owner.pair.english[-1].text.endswith("s")


def english_object(phrase: NounPhrase) -> list[Token]:
    """Return the English words of the phrase as an object ("him" for "he")."""
    if not phrase.pronoun:
        return phrase.pair.english
    return [phrase.pair.english[0]._replace(text=PRONOUNS[phrase.pronoun].english_object)]


def stressed(phrase: NounPhrase) -> list[Token]:
    """Return the French words of the phrase after a preposition ("lui" for "il")."""
    if not phrase.pronoun:
        return phrase.pair.french
    return [phrase.pair.french[0]._replace(text=PRONOUNS[phrase.pronoun].stressed)]


def with_preposition(english: str, french: str, phrase: NounPhrase) -> Pair:
    """Return the phrase after a preposition, in both languages."""
    preposition = unit(english, french)
    return Pair(preposition.english + english_object(phrase), preposition.french + stressed(phrase))

"""Questions, commands and clauses with "be": the other ways to put a clause into words."""

import french_forms
from clauses import (
    FRENCH_TENSE,
    NEGATIONS,
    Clause,
    clitics_of,
    complements,
    english_auxiliaries,
    english_group,
    english_rest,
    french_group,
    french_rest,
    new_links,
)
from phrases import NounPhrase
from tokens import Link, Pair, Token, words


def question(clause: Clause, word: Pair | None = None) -> Pair:
    """Return a question with "est-ce que", after a question word if there is one."""
    links = new_links()
    start = word or Pair([], [])
    fronted, group = english_group(clause, links, question=True)
    rest, subject = complements(clause), clause.subject.pair
    link = Link()
    fronted = [Token(token.text, token.links | {link}) for token in fronted]
    return Pair(
        start.english
        + fronted
        + subject.english
        + group
        + english_rest(clause, links)
        + rest.english,
        start.french
        + words("est-ce que", link)
        + subject.french
        + french_group(clause, links)
        + french_rest(clause, links)
        + rest.french,
    )


def imperative(clause: Clause) -> Pair:
    """Return a command; the subject is tu, nous ("let us") or vous.

    Clitics follow the verb with hyphens as one token ("donne-le-moi"), or stand before it where
    the command is negated ("ne le donne pas").
    """
    links = new_links()
    verb, index = clause.verb, clause.subject.index
    form = french_forms.imperative(verb.infinitive, index)
    clitics = clitics_of(clause, links)
    english = words({3: "let us"}.get(index, ""), links.verb)
    if clause.negation:
        english = words("do", links.verb) if index != 3 else english
        english += words("not", links.negation)
        french = words("ne", links.negation) + clitics + words(form, links.verb)
        french += words("pas", links.negation)
    else:
        clitics.sort(key=lambda token: token.text in ("me", "te", "nous", "lui", "leur"))
        attached = [{"me": "moi", "te": "toi"}.get(token.text, token.text) for token in clitics]
        ids = frozenset((links.verb,)).union(*(token.links for token in clitics))
        if attached[:1] in (["y"], ["en"]) and form[-1] in "ea":
            form += "s"
        french = [Token("-".join([form, *attached]), ids)]
    rest = complements(clause)
    return Pair(
        english + words(verb.english, links.verb) + english_rest(clause, links) + rest.english,
        french
        + words(" ".join(verb.french_tail), links.verb)
        + french_rest(clause, links)
        + rest.french,
    )


def copula(
    subject: NounPhrase,
    tense: str,
    english: list[Token],
    french: list[Token],
    negation: str = "",
    french_verb: str = "être",
    links: tuple[Link, Link] | None = None,
) -> Pair:
    """Return a clause with "be"; French has ``être`` or another verb ("avoir faim").

    :param english: what follows "be", with links of its own; ``french`` what follows the verb.
    """
    verb, no = links or (Link(), Link())
    index = subject.index
    auxiliaries, full = english_auxiliaries(tense, "be", index, bool(negation), False)
    french_tense = "imperfect" if tense == "past" else FRENCH_TENSE[tense]
    form = french_forms.conjugate(french_verb, french_tense, index)
    en_not = words(NEGATIONS[negation], no) if negation else []
    fr_pas = words(negation, no) if negation else []
    ne = words("ne", no) if negation else []
    return Pair(
        subject.pair.english
        + words(" ".join(auxiliaries), verb)
        + en_not
        + words(full, verb)
        + english,
        subject.pair.french + ne + words(form, verb) + fr_pas + french,
    )

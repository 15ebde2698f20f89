"""Sentence patterns that compare: more, less, as ... as, the most."""

import english_forms
from clauses import Clause
from constructions import ABSOLUTE, person_adjective
from lexicon import Adjective, Noun
from moods import copula
from phrases import english_object, noun_phrase, of, stressed
from sampling import Sampler, other_person
from sentences import statement
from tokens import Link, Pair, join, unit, words


def _compared(adjective: Adjective, ending: str) -> tuple[str, str]:
    """Return the English word(s) for a comparative or superlative, and "plus" or ""."""
    form = english_forms.compare(adjective.english, ending)
    if form:
        return form, ""
    return adjective.english, "more" if ending == "er" else "most"


def comparison(sampler: Sampler) -> Pair:
    """Comparatives, with their exception "meilleur"."""
    noun = sampler.noun(("vehicle", "building", "clothing", "animal", "readable", "place"))
    left = noun_phrase(noun, "this", "pl" in noun.flags)
    right = of(noun_phrase(noun, "definite", "pl" in noun.flags), sampler.name())
    adjective = sampler.adjective(noun, predicate=True)
    if sampler.chance(0.5):
        left, adjective = sampler.subject(), person_adjective(sampler)
        right = other_person(sampler, left) if sampler.chance(0.5) else sampler.name()
    elif sampler.chance(0.5):
        right = noun_phrase(noun, "possessive", "pl" in noun.flags, owner=sampler.pronoun_key())
    while adjective.english in ABSOLUTE or adjective.english == "bad":
        adjective = person_adjective(sampler) if left.human else sampler.adjective(noun, True)
    than, link = Link(), Link()
    kind = sampler.weighted({"more": 5, "less": 2, "as": 3})
    form = adjective.french(left.gender, left.plural)
    english, more = _compared(adjective, "er")
    if kind == "more" and adjective.english == "good":
        form = "meilleur" + "e" * (left.gender == "f") + "s" * left.plural
        pair = Pair(words("better", link), words(form, link))
    elif kind == "more":
        degree = Link() if more else link
        pair = Pair(words(more, degree) + words(english, link),
                    words("plus", degree) + words(form, link))  # fmt: skip
    else:
        first = ("less", "moins") if kind == "less" else ("as", "aussi")
        pair = join(unit(*first), Pair(words(adjective.english, link), words(form, link)))
    joint = Pair(words("as" if kind == "as" else "than", than), words("que", than))
    tail = join(pair, joint, Pair(english_object(right), stressed(right)))
    tense = sampler.weighted({"present": 5, "past": 1})
    return statement(copula(left, tense, tail.english, tail.french))


def superlative(sampler: Sampler) -> Pair:
    """Superlatives stand where the adjective stands, and "in the city" is "de la ville"."""
    noun: Noun = sampler.noun(("building", "building", "place", "nature", "readable", "person"))
    adjective = sampler.adjective(noun)
    while adjective.english in ABSOLUTE | {"bad"} or (
        noun.flags & {"pl"} or noun.english in ("city", "village")
    ):
        noun = sampler.noun(("building", "nature", "person"))
        adjective = sampler.adjective(noun)
    english, most = _compared(adjective, "est")
    the, link, head = Link(), Link(), Link()
    degree = Link() if most else link
    form = adjective.french(noun.gender, False)
    article = "la_" if noun.gender == "f" else "le_"
    better = adjective.english == "good"
    if better:
        form = "meilleure" if noun.gender == "f" else "meilleur"
    plus = [] if better else words("plus", degree)
    start = words("the", the) + words(most, degree) + words(english, link)
    if "before" in adjective.flags:
        french = words(article, the) + plus + words(form, link) + words(noun.french, head)
    else:
        french = words(article, the) + words(noun.french, head)
        french += words(article, the) + plus + words(form, link)
    phrase = Pair(start + words(noun.english, head), french)
    regions = {"city": "la_ ville", "village": "le_ village"}
    if noun.classes & {"nature", "wild", "readable"}:
        regions = {"country": "le_ pays", "world": "le_ monde", "region": "la_ région"}
    region = sampler.zipf(list(regions))
    scope = join(unit("in", "de"), unit(f"the {region}", regions[region]))
    link = Link()
    subject = Pair(words("it is", link), words("ce est", link))
    if sampler.chance(0.4):
        know = Clause(sampler.subject(), sampler.lexicon.verb("know", "connaître"), "present")
        return statement(join(know.build(), phrase, scope))
    return statement(join(subject, phrase, scope))

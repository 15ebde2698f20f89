"""More sentence patterns: "be" and its French verbs, comparison, relatives, subordinate clauses."""

import english_forms
import french_forms
from clauses import FRENCH_TENSE, Clause, build
from lexicon import Adjective, Noun
from moods import copula
from phrases import (
    PRONOUNS,
    NounPhrase,
    noun_phrase,
    of,
    pronoun,
    with_preposition,
)
from sampling import Sampler
from sentences import statement
from tokens import Link, Pair, join, literal, unit, words

# Adjectives without degrees.
_ABSOLUTE_WORDS = (
    "black white red blue green yellow brown grey pink purple round square empty broken "
    "public blind deaf standing alone ready late early delicious excellent huge magnificent "
    "exact french wet lost deserted french english german spanish american italian japanese "
    "greek swiss russian belgian turkish new wild former possible absurd cheap hungry"
)
ABSOLUTE = frozenset(_ABSOLUTE_WORDS.split())
_THINGS_WORDS = (
    "object readable clothing vehicle building place food furniture media abstract animal"
)
THINGS = tuple(_THINGS_WORDS.split())


def person_adjective(sampler: Sampler) -> Adjective:
    """Return an adjective that is said of people after "be"."""
    return sampler.adjective(sampler.lexicon.noun("man"), predicate=True)


def predicate(sampler: Sampler, subject: NounPhrase, adjective: Adjective, tense: str) -> Pair:
    """Return "subject is (not) (very) adjective"."""
    link, negation = Link(), "pas" if sampler.chance(0.2) else ""
    english = words(adjective.english, link)
    french = words(adjective.french(subject.gender, subject.plural), link)
    if adjective.english not in ABSOLUTE and not negation and sampler.chance(0.35):
        degree = literal(sampler.weighted({"very=très": 4, "too=trop": 2, "so=si": 1,
                                           "quite=assez": 1}))  # fmt: skip
        english, french = degree.english + english, degree.french + french
    return copula(subject, tense, english, french, negation)


def describe(sampler: Sampler) -> Pair:
    """Adjectives after "be" agree with their subject."""
    tense = sampler.weighted({"present": 6, "past": 3, "future": 1})
    if sampler.chance(0.5):
        subject = sampler.subject()
        return statement(predicate(sampler, subject, person_adjective(sampler), tense))
    noun = sampler.noun(THINGS)
    subject = sampler.noun_phrase(noun, definite=True, adjectives=False)
    if "readable" in noun.classes and sampler.chance(0.3):
        owner = sampler.name()
        subject = of(noun_phrase(noun), owner)
    return statement(predicate(sampler, subject, sampler.adjective(noun, True), tense))


def belongs(sampler: Sampler) -> Pair:
    """The possessor comes first in English and last in French."""
    noun = sampler.noun(("object", "clothing", "readable", "vehicle", "animal"))
    owner = sampler.name()
    if sampler.chance(0.5):
        owner = sampler.noun_phrase(sampler.noun(("family",)), adjectives=False)
    thing = of(noun_phrase(noun, "definite", bool(noun.flags & {"pl"})), owner)
    verb = sampler.lexicon.verb(sampler.weighted({"look for": 3, "find": 3, "lose": 2, "see": 2,
                                                  "take": 2, "forget": 1}))  # fmt: skip
    tense = "progressive" if verb.english == "look" else "past"
    return statement(Clause(sampler.subject(), verb, tense, object=thing).build())


def profession(sampler: Sampler) -> Pair:
    """Professions have no article in French; nationalities are adjectives."""
    tense = sampler.weighted({"present": 3, "past": 1, "near": 0})
    if sampler.chance(0.45):
        subject = sampler.subject()
        adjectives = [a for a in sampler.lexicon.adjectives if "nationality" in a.classes]
        return statement(predicate(sampler, subject, sampler.zipf(adjectives), tense))
    subject = sampler.subject()
    while subject.index == 4 or (not subject.pronoun and subject.plural):
        subject = sampler.subject()
    titles = [n for n in sampler.lexicon.nouns if "title" in n.flags and n.gender == subject.gender]
    noun = sampler.zipf(titles)
    link = Link()
    plural = subject.plural
    english = words(
        ("" if plural else "a ") + (noun.english_plural if plural else noun.english), link
    )
    french = words(noun.french_plural if plural else noun.french, link)
    if sampler.chance(0.2):
        link = Link()
        subject_pair = join(subject.pair, unit("want to become", _want(subject)))
        return statement(Pair(_fix_third(subject_pair, subject).english + english,
                              subject_pair.french + french))  # fmt: skip
    return statement(copula(subject, tense, english, french, "pas" if sampler.chance(0.15) else ""))


def _want(subject: NounPhrase) -> str:
    return french_forms.conjugate("vouloir", "present", subject.index) + " devenir"


def _fix_third(pair: Pair, subject: NounPhrase) -> Pair:
    if subject.index != 2:
        return pair
    english = [t._replace(text="wants") if t.text == "want" else t for t in pair.english]
    return Pair(english, pair.french)


def there_is(sampler: Sampler) -> Pair:
    """ "There is" with the articles that a negation changes."""
    classes = ("person", "animal", "food", "massfood", "drink", "object", "furniture", "vehicle")
    noun = sampler.noun(classes)
    past, negated = sampler.chance(0.25), sampler.chance(0.3)
    mass = "mass" in noun.flags
    plural = not mass and (sampler.chance(0.6) or bool({"pl"} & noun.flags))
    number = sampler.phrase("number") if plural and sampler.chance(0.35) and not negated else None
    if "pl" in noun.flags:
        number = None
    kind = "some" if mass else "indefinite"
    if plural and negated:
        kind = "some"
    phrase = noun_phrase(noun, kind, plural, quantity=number, negated=negated)
    link, no = Link(), Link()
    verb = {(0, 0): "is", (0, 1): "are", (1, 0): "was", (1, 1): "were"}[(past, plural)]
    english = words(f"there {verb}", link) + (words("not", no) if negated else [])
    form = "avait" if past else "a"
    french = words("il", link) + (words("ne", no) if negated else []) + words(f"y {form}", link)
    french += words("pas", no) if negated else []
    place = _location(sampler, noun)
    return statement(join(Pair(english, french), phrase.pair, place))


def _location(sampler: Sampler, thing: Noun) -> Pair:
    kind = sampler.weighted({"place": 5, "furniture": 5})
    if thing.classes & {"person", "animal", "vehicle"}:
        kind = "building" if sampler.chance(0.4) else "outdoor"
    elif "furniture" in thing.classes:
        kind = "place"
    elif thing.classes & {"food", "massfood", "drink"}:
        kind = "furniture"
    noun = sampler.noun((kind,))
    phrase = noun_phrase(noun, "definite")
    if kind in ("place", "outdoor"):
        return with_preposition("in", "dans", phrase)
    if thing.classes & {"food", "massfood", "drink"}:
        choice = "on/sur"
        phrase = noun_phrase(sampler.zipf(sampler.lexicon.nouns_of(("table", "shelf"))), "definite")
    elif kind == "building":
        choice = sampler.weighted(
            {"in front of/devant": 3, "behind/derrière": 2, "near/près de": 2}
        )
    else:
        choice = sampler.weighted({"on/sur": 4, "under/sous": 3, "next to/à côté de": 2,
                                   "behind/derrière": 1, "near/près de": 1})  # fmt: skip
    english, french = choice.split("/")
    return with_preposition(english, french, phrase)


def located(sampler: Sampler) -> Pair:
    """Something is somewhere; the subject decides "il" or "elle" in the answer."""
    noun = sampler.noun(("object", "clothing", "readable"))
    thing = sampler.noun_phrase(noun, definite=True, adjectives=False)
    place = _location(sampler, noun)
    if sampler.chance(0.35):
        again = pronoun(thing.reference())
        are = "where are" if thing.plural else "where is"
        ask = join(unit(are, "où sont" if thing.plural else "où est"), thing.pair, unit("?", "?"))
        return statement(join(ask, copula(again, "present", place.english, place.french)))
    tense = "past" if sampler.chance(0.3) else "present"
    negation = "pas" if sampler.chance(0.15) else ""
    return statement(copula(thing, tense, place.english, place.french, negation))


def since(sampler: Sampler) -> Pair:
    """What still lasts is a present in French ("depuis"); what is over has "pendant"."""
    subject = sampler.subject()
    lasting = sampler.chance(0.65)
    name = sampler.weighted({"live": 3, "work": 3, "wait": 2, "sleep": 1, "travel": 1})
    verb = sampler.lexicon.verb(name, kind="intransitive")
    places: tuple[Pair, ...] = ()
    duration = sampler.phrase("duration")
    if name in ("live", "work", "travel"):
        places = (sampler.goal("in", far=name != "work"),) if name != "travel" else ()
    wanted = "long" if name in ("live", "work", "travel") else ""
    while duration.flag != wanted:
        duration = sampler.phrase("duration")
    clause = Clause(subject, verb, "since" if lasting else "past", complements=places)
    pair = clause.build()
    if not lasting and name == "live":  # the state is over: passé composé, not imperfect
        pair = Clause(subject, verb, "perfect", complements=places).build()
        have = "has" if subject.index == 2 else "have"
        tokens = [t for t in pair.english if t.text != have]
        pair = Pair(tokens, pair.french)
    preposition = unit("for", "depuis" if lasting else "pendant")
    return statement(join(pair, preposition, unit(duration.english, duration.french)))


def missing(sampler: Sampler) -> Pair:
    """Verbs whose English object is the French subject: manquer à, plaire à."""
    who = pronoun(sampler.pronoun_key())
    link = Link()
    if sampler.chance(0.5):
        what = _family_or_name(sampler, who)
        english, infinitive, tense = "miss", "manquer", "present"
    else:
        noun = sampler.noun(("media", "building", "clothing", "readable", "place"))
        what = noun_phrase(noun, sampler.weighted({"this": 4, "possessive": 1}), owner="he")
        english, infinitive, tense = "like", "plaire", "present"
    negation = sampler.chance(0.2)
    no = Link()
    third = who.index == 2
    verb = english_forms.third_person(english) if third and not negation else english
    start = words("does" if third else "do", link) + words("not", no) if negation else []
    clitic = words(PRONOUNS[who.pronoun].indirect, Link())
    clitic = [clitic[0]._replace(links=who.pair.english[0].links)]
    form = words(french_forms.conjugate(infinitive, FRENCH_TENSE[tense], what.index), link)
    ne, pas = (words("ne", no), words("pas", no)) if negation else ([], [])
    return statement(
        Pair(
            who.pair.english + start + words(verb, link) + what.pair.english,
            what.pair.french + ne + clitic + form + pas,
        )
    )


def _family_or_name(sampler: Sampler, who: NounPhrase) -> NounPhrase:
    if sampler.chance(0.4):
        return sampler.name()
    noun = sampler.noun(("family",))
    return noun_phrase(noun, "possessive", "pl" in noun.flags, owner=who.pronoun)


def clock(sampler: Sampler) -> Pair:
    """Hours, prices."""
    if sampler.chance(0.4):
        noun = sampler.noun(("clothing", "object", "readable", "furniture"))
        thing = sampler.noun_phrase(noun, definite=True, adjectives=False)
        number = sampler.phrase("number")
        verb = unit("cost" if thing.plural else "costs", "coûtent" if thing.plural else "coûte")
        money = unit("euros", "euros")
        price = join(unit(number.english, number.french), money)
        return statement(join(thing.pair, verb, price))
    hours = [p for p in sampler.lexicon.phrases["clock"] if p.french.startswith("à ")]
    hour = sampler.zipf(hours)
    link = Link()
    it = Pair(words("it is", link), words("il est", link))
    tail = unit(hour.english.removeprefix("at "), hour.french.removeprefix("à "))
    must = Clause(sampler.subject(), sampler.lexicon.verb("leave", "partir"), "present",
                  modal=sampler.lexicon.verb("must"))  # fmt: skip
    joint = unit(", and", "et")
    return statement(join(it, tail, joint, build(must)))

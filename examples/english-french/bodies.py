"""Sentence patterns of what people feel, and of the parts of their bodies."""

import english_forms
import french_forms
from moods import copula
from phrases import PRONOUNS, REFLEXIVE, noun_phrase, pronoun
from sampling import Sampler
from sentences import statement
from tokens import Link, Pair, join, unit, words


def sensation(sampler: Sampler) -> Pair:
    """Hunger, cold, luck and being right are had in French; so are ages and pains."""
    subject = sampler.subject()
    tense = sampler.weighted({"present": 5, "past": 2})
    kind = sampler.weighted({"state": 5, "age": 3, "pain": 4})
    if kind == "state":
        state = sampler.phrase("avoir")
        negation = "pas" if sampler.chance(0.2) else ""
        french = state.french.replace("de la_", "de") if negation else state.french
        pair = unit(state.english, french)
        return statement(copula(subject, tense, pair.english, pair.french, negation, "avoir"))
    if kind == "age":
        number = sampler.phrase("number")
        pair = join(unit(number.english, number.french), unit("years old", "ans"))
        return statement(copula(subject, tense, pair.english, pair.french, "", "avoir"))
    noun = sampler.noun(("body",))
    plural = "plonly" in noun.flags or ("one" not in noun.flags and sampler.chance(0.25))
    if noun.english == "head":
        plural = False
    owner = subject
    phrase = noun_phrase(noun, "definite", plural)
    verb, body = Link(), phrase.pair
    possessive = {2: "'s"}.get(subject.index, "'") if not subject.pronoun else ""
    if subject.pronoun:
        start = words(PRONOUNS[subject.pronoun].english_possessive, Link())
    else:
        start = list(subject.pair.english)
        if subject.index == 5 and start[-1].text[-1] != "s":
            possessive = "'s"
    links = frozenset().union(*(token.links for token in subject.pair.english))
    start = [token._replace(links=links) for token in start]
    english_words = start + words(possessive, *links) + body.english[1:]
    english_words += words("hurt" if plural else "hurts", verb)
    have = french_forms.conjugate("avoir", "present", owner.index)
    article = body.french[0]._replace(links=body.french[1].links)
    french_words = subject.pair.french + words(f"{have} mal à", verb) + [article, *body.french[1:]]
    return statement(Pair(english_words, french_words))


def washing(sampler: Sampler) -> Pair:
    """Parts of the body take the article, and the verb says whose they are."""
    subject = pronoun(sampler.pronoun_key())
    if sampler.chance(0.4):
        subject = sampler.subject()
    noun = sampler.noun(("wash",))
    plural = "one" not in noun.flags
    tense = sampler.weighted({"present": 3, "past": 4, "near": 2})
    english_verb, infinitive = "wash", "laver"
    if noun.english in ("tooth", "hair"):
        english_verb, infinitive = "brush", "brosser"
    link, verb, helper = Link(), Link(), Link()
    possessive = PRONOUNS[subject.reference()].english_possessive
    text = noun.english_plural if plural and noun.english != "hair" else noun.english
    french_noun = words("les_" if plural else "le_", link)
    french_noun += words(noun.french_plural if plural else noun.french, link)
    se = words(REFLEXIVE[subject.index], verb)
    index = subject.index
    if tense == "past":
        # No agreement: the reflexive pronoun is the indirect object here.
        group = se + words(french_forms.conjugate("être", "present", index), helper)
        group += words(french_forms.participle(infinitive), verb)
        verbs = words(english_forms.past(english_verb), verb, helper)
    elif tense == "near":
        be = "am" if index == 0 else "is" if index == 2 else "are"
        group = words(french_forms.conjugate("aller", "present", index), helper)
        group += se + words(infinitive, verb)
        verbs = words(f"{be} going to", helper) + words(english_verb, verb)
    else:
        group = se + words(french_forms.conjugate(infinitive, "present", index), verb)
        third = index == 2
        verbs = words(english_forms.third_person(english_verb) if third else english_verb, verb)
    english = subject.pair.english + verbs + words(f"{possessive} {text}", link)
    pair = Pair(english, subject.pair.french + group + french_noun)
    time = sampler.time(tense)
    return statement(join(pair, time) if time and sampler.chance(0.5) else pair)

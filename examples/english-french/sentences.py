"""Sentence patterns of the example: each function returns one aligned sentence."""

from collections.abc import Callable
from dataclasses import replace

from clauses import Clause
from lexicon import Noun, Phrase, Verb
from moods import imperative, question
from phrases import NounPhrase, noun_phrase, pronoun
from sampling import Sampler, object_pronoun, other_person
from tokens import Pair, join, literal, unit

Pattern = Callable[[Sampler], Pair]
TENSES = {"past": 9, "present": 7, "progressive": 4, "near": 3, "future": 3, "perfect": 2, "was": 1,
          "used": 1}  # fmt: skip
STATES = {"present": 7, "past": 3, "future": 1}
# Verbs that rarely follow another one with the same object.
_UNLIKELY_WORDS = "payer demander goûter vérifier changer chercher attendre acheter voir trouver"
UNLIKELY = frozenset(_UNLIKELY_WORDS.split())
ALREADY = Phrase("already", "déjà", "")


def statement(pair: Pair) -> Pair:
    """Return the clause with a full stop."""
    return join(pair, unit(".", "."))


def _tense(sampler: Sampler, verb: Verb) -> str:
    if "presentonly" in verb.flags:
        return "present"
    if "past" in verb.flags:
        return sampler.weighted({"past": 5, "perfect": 1, "near": 1})
    if "stative" in verb.flags or verb.english == "be":
        return sampler.weighted(STATES)
    tense = sampler.weighted(TENSES)
    if "noprog" in verb.flags and tense in ("progressive", "was"):
        return "past"
    return tense


def _decorate(sampler: Sampler, clause: Clause) -> Clause:
    """Add an adverb of frequency, a negation or a modal, where they fit."""
    verb, tense = clause.verb, clause.tense
    draw = sampler.random.random()
    if draw < 0.08 and tense == "present" and "general" not in verb.flags:
        return replace(clause, adverb=sampler.phrase("frequency"))
    if draw < 0.14 and tense == "perfect":
        return replace(clause, adverb=ALREADY)
    if draw < 0.25:
        kinds = {"pas": 6}
        if tense in ("present", "past", "perfect") and "stative" not in verb.flags:
            kinds["jamais"] = 2
        if tense == "present":
            kinds["plus"] = 2
        tense = "past" if tense == "used" else tense  # never "not used to"
        return replace(clause, tense=tense, negation=sampler.weighted(kinds))
    if draw < 0.40 and not verb.flags & {"stative", "noprog", "past"} and verb.english != "be":
        return _with_modal(sampler, clause)
    return clause


def _with_modal(sampler: Sampler, clause: Clause) -> Clause:
    modal = sampler.verb("modal")
    tense = sampler.weighted({"present": 6, "past": 3})
    if modal.english == "must":
        tense = "present"
    if modal.english == "like" and sampler.chance(0.6):
        tense = "conditional"
    negation = "pas" if sampler.chance(0.15) and modal.infinitive != "devoir" else ""
    return replace(clause, modal=modal, tense=tense, negation=negation)


def _object(sampler: Sampler, verb: Verb, subject: NounPhrase, negated: bool) -> NounPhrase:
    """Return an object that fits the verb."""
    name = sampler.random.choice(verb.objects)
    if name == "country":
        return sampler.country()
    if name == "city":
        return sampler.city()
    if name == "human" and sampler.chance(0.55):
        return other_person(sampler, subject) if sampler.chance(0.75) else sampler.name()
    general = "general" in verb.flags
    negated = negated and not verb.preposition
    noun = sampler.noun((name,))
    owner = subject.reference()
    if verb.english == "speak":  # "parler français" has no article
        return noun_phrase(noun, "none")
    if verb.infinitive in ("savoir", "connaître", "parler", "expliquer"):
        return sampler.noun_phrase(noun, owner, negated, definite=True, adjectives=False)
    return sampler.noun_phrase(noun, owner, negated, general)


def _timed(sampler: Sampler, pair: Pair, tense: str, rate: float = 0.4) -> Pair:
    """Return the clause with an expression of time after or before it, or without."""
    if not sampler.chance(rate):
        return pair
    time = sampler.time(tense)
    if time is None:
        return pair
    if sampler.chance(0.25) and tense != "was":
        return join(time, unit(",", ","), pair)
    return join(pair, time)


def transitive_clause(sampler: Sampler, decorated: bool = True) -> Clause:
    """Return a random clause with an object; plain, or with adverb, negation or modal."""
    subject, verb = sampler.subject(), sampler.verb("transitive")
    clause = Clause(subject, verb, _tense(sampler, verb))
    clause = _decorate(sampler, clause) if decorated else clause
    return replace(clause, object=_object(sampler, verb, subject, bool(clause.negation)))


def _clock_tense(clause: Clause) -> str:
    """Return the tense that expressions of time have to fit; "" where none does."""
    if clause.modal or clause.negation in ("jamais", "plus") or clause.adverb:
        return ""
    if clause.tense == "present" and "noprog" in clause.verb.flags:
        return ""
    return "" if "stative" in clause.verb.flags else clause.tense


def transitive(sampler: Sampler) -> Pair:
    """Somebody does something to something."""
    clause = transitive_clause(sampler)
    return statement(_timed(sampler, clause.build(), _clock_tense(clause)))


def nothing(sampler: Sampler) -> Pair:
    """Nothing, nobody, only."""
    subject = sampler.subject()
    while True:
        verb = sampler.verb("transitive")
        if not (verb.preposition or verb.french_tail or verb.flags):
            break
    tense = sampler.weighted({"past": 4, "present": 3, "perfect": 1, "future": 1})
    kind = "personne" if verb.objects[0] == "human" else "rien"
    if sampler.chance(0.35) and kind == "rien":
        target = sampler.noun_phrase(sampler.noun(verb.objects), subject.reference(), definite=True)
        if not target.pronoun:
            clause = Clause(subject, verb, "present", "que", object=target)
            return statement(clause.build())
    return statement(_timed(sampler, Clause(subject, verb, tense, kind).build(), tense, 0.2))


def _place(sampler: Sampler, verb: Verb) -> list[Pair]:
    fitting = [kind for kind in ("at", "in") if kind in verb.flags]
    if not fitting or not sampler.chance(0.55):
        return []
    return [sampler.at() if sampler.random.choice(fitting) == "at" else sampler.where()]


def intransitive_clause(sampler: Sampler, decorated: bool = True) -> Clause:
    """Return a random clause without an object; plain, or with adverb, negation or modal."""
    subject, verb = sampler.subject(), sampler.verb("intransitive")
    clause = Clause(subject, verb, _tense(sampler, verb))
    clause = _decorate(sampler, clause) if decorated else clause
    places = _place(sampler, verb)
    if verb.english == "live":
        places = [sampler.goal("in", far=True)]
        clause = replace(clause, modal=None, negation="", adverb=None)
    if "manner" in verb.flags and sampler.chance(0.35):
        manner = sampler.phrase("manner")
        if manner.flag != "plural" or subject.plural:
            places.append(unit(manner.english, manner.french))
    return replace(clause, complements=tuple(places))


def intransitive(sampler: Sampler) -> Pair:
    """Somebody does something somewhere."""
    if sampler.chance(0.08):
        noun = sampler.noun(("animal",))
        animal = sampler.noun_phrase(noun, subject=True, definite=True)
        verbs = [v for v in sampler.lexicon.verbs if "animal" in v.subjects]
        clause = Clause(animal, sampler.zipf(verbs), "progressive", complements=(sampler.where(),))
        return statement(clause.build())
    clause = intransitive_clause(sampler)
    return statement(_timed(sampler, clause.build(), _clock_tense(clause)))


def motion(sampler: Sampler) -> Pair:
    """Cities and countries with their prepositions, and "y"."""
    subject, verb = sampler.subject(), sampler.verb("motion")
    direction = next(flag for flag in ("to", "from", "in") if flag in verb.flags)
    tense = _tense(sampler, verb)
    clause = _decorate(sampler, Clause(subject, verb, tense))
    if direction != "from" and sampler.chance(0.2):
        clause = replace(clause, there=True)
    else:
        clause = replace(clause, complements=(sampler.goal(direction, "far" in verb.flags),))
    return statement(_timed(sampler, clause.build(), _clock_tense(clause)))


def ditransitive(sampler: Sampler) -> Pair:
    """Somebody gives something to somebody; one or both may be clitics."""
    subject, verb = sampler.subject(), sampler.verb("ditransitive")
    tense = sampler.weighted({"past": 5, "present": 2, "near": 2, "future": 2, "perfect": 1})
    negation = "pas" if sampler.chance(0.15) else ""
    noun = sampler.noun((sampler.random.choice(verb.objects),))
    target = sampler.noun_phrase(noun, subject.reference(), bool(negation))
    recipient = other_person(sampler, subject)
    if sampler.chance(0.35):
        recipient = sampler.name() if sampler.chance(0.5) else _family(sampler, subject)
    elif sampler.chance(0.25) and verb.english != "promise":
        # The antecedent comes first, so that "it" has a gender: "the key ? i gave it to her ."
        first = sampler.noun_phrase(noun, definite=True, adjectives=False, owner="he")
        target = object_pronoun(first)
        clause = Clause(subject, verb, "past", negation, object=target, recipient=recipient)
        return join(first.pair, unit("?", "?"), statement(clause.build()))
    clause = Clause(subject, verb, tense, negation, object=target, recipient=recipient)
    if sampler.chance(0.15) and not negation:
        clause = _with_modal(sampler, clause)
        return statement(clause.build())
    return statement(_timed(sampler, clause.build(), tense, 0.3))


def _family(sampler: Sampler, subject: NounPhrase) -> NounPhrase:
    noun = sampler.noun(("family",))
    return sampler.noun_phrase(noun, subject.reference(), adjectives=False)


def anaphora(sampler: Sampler) -> Pair:
    """Two verbs with the same object: the second time it is a pronoun."""
    subject = sampler.subject()
    first_verb = sampler.lexicon.verb(
        sampler.weighted({"buy": 5, "find": 3, "take": 2, "lose": 2, "choose": 2, "read": 1,
                          "receive": 1, "meet": 2, "borrow": 1, "build": 1, "prepare": 1})
    )  # fmt: skip
    target = _object(sampler, first_verb, subject, False)
    while target.pronoun:
        target = _object(sampler, first_verb, subject, False)
    verb = _second_verb(sampler, target, first_verb)
    first = Clause(subject, first_verb, "past", object=target).build()
    again = pronoun(subject.reference()) if subject.human and not subject.pronoun else subject
    tense = sampler.weighted({"past": 4, "near": 2, "present": 1})
    negation = sampler.weighted({"": 3, "pas": 2, "jamais": 1}) if tense != "near" else ""
    second = Clause(again, verb, tense, negation, object=object_pronoun(target)).build()
    joint = unit("but", "mais") if negation or sampler.chance(0.3) else unit("and", "et")
    return statement(join(first, joint, second))


def _second_verb(sampler: Sampler, target: NounPhrase, first: Verb) -> Verb:
    """Return another verb that takes the noun of the phrase."""
    if first.english == "lose":
        return sampler.lexicon.verb("find")
    head = _head(sampler, target)
    barred = {first.english, "want", "have", "ask", "like", "prefer", "visit", "taste", "know"}
    fitting = [
        verb
        for verb in sampler.lexicon.verbs
        if verb.kind == "transitive"
        and verb.english not in barred
        and (verb.english == "need" or not verb.flags & {"stative", "past"})
        and verb.infinitive not in UNLIKELY
        and (head is None or head in sampler.lexicon.nouns_of(verb.objects))
        and (head is not None or "human" in verb.objects)
    ]
    other = "help" if target.human else "sell"
    return sampler.zipf(fitting) if fitting else sampler.lexicon.verb(other)


def _head(sampler: Sampler, phrase: NounPhrase) -> Noun | None:
    texts = {token.text for token in phrase.pair.french}
    english = " ".join(token.text for token in phrase.pair.english)
    for noun in sampler.lexicon.nouns:
        if texts & {noun.french, noun.french_plural} and (
            english.endswith((noun.english, noun.english_plural))
        ):
            return noun
    return None


def commands(sampler: Sampler) -> Pair:
    """Commands, with clitics after the verb or, negated, before it."""
    subject = pronoun(sampler.weighted({"tu_m": 4, "vous": 4, "we": 1}))
    kind = sampler.weighted({"transitive": 4, "ditransitive": 3, "intransitive": 2})
    negation = "pas" if sampler.chance(0.3) else ""
    while True:
        verb = sampler.verb(kind)
        barred = {"stative", "noprog", "past", "general"}
        if not verb.flags & barred and verb.english not in ("be", "die", "faint", "steal"):
            break
    target = recipient = None
    if kind != "intransitive":
        target = _object(sampler, verb, subject, bool(negation))
        while target.pronoun:
            target = _object(sampler, verb, subject, bool(negation))
        if (
            kind == "transitive"
            and sampler.chance(0.4)
            and not (verb.french_tail or verb.reflexive)
        ):
            return _command_about(sampler, Clause(subject, verb, "present", negation), target)
    if kind == "ditransitive":
        recipient = pronoun(sampler.weighted({"i_m": 5, "he": 2, "she": 1, "they_m": 1}))
        if subject.index == 3:
            subject = pronoun("tu_m")
    pair = imperative(
        Clause(subject, verb, "present", negation, object=target, recipient=recipient)
    )
    return join(pair, unit("!", "!") if sampler.chance(0.5) else unit(".", "."))


def _command_about(sampler: Sampler, clause: Clause, target: NounPhrase) -> Pair:
    """Return "the door ? close it !", or "help me !" for people."""
    start = join(target.pair, unit("?", "?"))
    if target.human or target.pair.english[0].text not in ("the", "this", "these", "my", "our"):
        keys = (
            {"i_m": 4, "he": 2, "she": 2, "they_m": 1} if clause.subject.index != 3 else {"he": 1}
        )
        target, start = pronoun(sampler.weighted(keys)), Pair([], [])
        if "human" not in clause.verb.objects:
            clause = replace(clause, verb=sampler.lexicon.verb("help"))
    target = target if target.pronoun else object_pronoun(target)
    return join(start, imperative(replace(clause, object=target)), unit("!", "!"))


def questions(sampler: Sampler) -> Pair:
    """Questions with "est-ce que", alone or after a question word."""
    kind = sampler.weighted({"object": 5, "plain": 3, "motion": 2})
    maker = transitive_clause if kind == "object" else intransitive_clause
    clause = maker(sampler, False)
    while clause.subject.index == 0 or "presentonly" in clause.verb.flags:
        clause = maker(sampler, False)
    if kind == "motion":
        verb = sampler.lexicon.verb("go", "aller", "motion")
        clause = Clause(clause.subject, verb, "past", complements=(sampler.goal("to"),))
    tense = clause.tense if clause.tense not in ("used", "was") else "past"
    clause = replace(clause, tense=tense)
    word = None
    if sampler.chance(0.5):
        word = literal(sampler.weighted({"why=pourquoi": 4, "when=quand": 3,
                                         "how_many_times=combien~de~fois": 1}))  # fmt: skip
        if word.english[0].text != "why" and "stative" in clause.verb.flags:
            word = literal("why=pourquoi")
        elif word.english[0].text != "why" and clause.tense in ("perfect", "progressive"):
            clause = replace(clause, tense="past")
    pair = question(clause, word)
    return join(pair, unit("?", "?"))

"""Sentence patterns of two clauses: relatives, reports, conditions, wishes, reasons, passives."""

from dataclasses import replace

import english_forms
import french_forms
from clauses import Clause, build
from constructions import person_adjective, predicate
from lexicon import Verb
from moods import copula
from phrases import NounPhrase, english_object, noun_phrase, pronoun
from sampling import Sampler
from sentences import intransitive_clause, statement, transitive_clause
from tokens import Link, Pair, join, literal, unit, words


def simple_clause(sampler: Sampler, tense: str = "", subject: NounPhrase | None = None) -> Clause:
    """Return a clause in a tense (a random one if empty), without modal or adverb."""
    while True:
        maker = transitive_clause if sampler.chance(0.5) else intransitive_clause
        clause = maker(sampler, not tense)
        # A pronoun object may be the very subject that is put in here.
        if clause.object and clause.object.pronoun and subject:
            continue
        state = clause.verb.flags & {"stative", "past", "presentonly"}
        if tense in ("progressive", "was"):
            state |= clause.verb.flags & {"noprog"}
        if tense and (state or clause.verb.english == "be"):
            continue
        break
    clause = replace(clause, modal=None, adverb=None)
    if tense:
        clause = replace(clause, tense=tense)
    if subject:
        clause = replace(clause, subject=subject)
    return clause


def relative_subject(sampler: Sampler) -> Pair:
    """The man who ...: qui."""
    noun = sampler.noun(("person",))
    head = noun_phrase(noun, "definite", "pl" in noun.flags or sampler.chance(0.2))
    tense = sampler.weighted({"past": 3, "progressive": 3})
    inner = simple_clause(sampler, tense, head)
    who = unit("who", "qui")
    phrase = replace(head, pair=join(head.pair, who, build(inner, subject=False)))
    if sampler.chance(0.5):
        return statement(predicate(sampler, phrase, person_adjective(sampler), "present"))
    verb = sampler.lexicon.verb(sampler.weighted({"know": 4, "meet": 2, "see": 3, "help": 1}))
    tense = "present" if verb.english == "know" else "past"
    return statement(Clause(sampler.subject(), verb, tense, object=phrase).build())


def relative_object(sampler: Sampler) -> Pair:
    """The book that ...: que, with the participle agreeing; dont for verbs with "de"."""
    names = {"buy": 4, "see": 2, "read": 2, "lose": 2, "find": 2, "choose": 1, "repair": 1,
             "need": 2, "talk about": 2, "remember": 1, "receive": 1, "sell": 1,
             "build": 1}  # fmt: skip
    verb = sampler.lexicon.verb(sampler.weighted(names), kind="transitive")
    classes = tuple(name for name in verb.objects if name not in ("human", "city", "country"))
    noun = sampler.noun(classes or ("object",))
    while noun.flags & {"mass", "bare"}:
        noun = sampler.noun(classes)
    plural = "pl" in noun.flags or ("sing" not in noun.flags and sampler.chance(0.3))
    head = noun_phrase(noun, "definite", plural)
    tense = "present" if "stative" in verb.flags or verb.english == "remember" else "past"
    subject = sampler.subject()
    inner = Clause(subject, verb, tense, extracted=head).build()
    which = unit("that", "dont" if verb.preposition else "que")
    phrase = replace(head, pair=join(head.pair, which, inner))
    if sampler.chance(0.6) or noun.classes & {"abstract", "topic", "media"}:
        adjective = sampler.adjective(noun, predicate=True)
        return statement(predicate(sampler, phrase, adjective, "present"))
    where = sampler.weighted({"where=où": 1})
    link = Link()
    is_ = Pair(words("are" if plural else "is", link), words("sont" if plural else "est", link))
    return join(literal(where), is_, phrase.pair, unit("?", "?"))


def relative_place(sampler: Sampler) -> Pair:
    """The house where ...: où."""
    name = sampler.weighted({"live": 3, "work": 3, "sleep": 1, "play": 1, "eat": 2, "wait": 1})
    homes = ("house", "flat", "village", "city", "castle", "farm", "street", "valley")
    noun = sampler.noun(homes if name == "live" else ("building", "place"))
    head = noun_phrase(noun, "definite")
    verb = sampler.lexicon.verb(name, kind="intransitive")
    inner = Clause(sampler.subject(), verb, "present" if name in ("live", "work") else "past")
    phrase = replace(head, pair=join(head.pair, unit("where", "où"), inner.build()))
    if sampler.chance(0.5):
        return statement(predicate(sampler, phrase, sampler.adjective(noun, True), "present"))
    verb = sampler.lexicon.verb("know", "connaître")
    return statement(Clause(sampler.subject(), verb, "present", object=phrase).build())


def report(sampler: Sampler) -> Pair:
    """What somebody thinks, says, knows or hopes."""
    subject = sampler.subject()
    choices = {"think/penser": 4, "say/dire": 3, "know/savoir": 3, "hope/espérer": 2,
               "believe/croire": 2, "be sure/être sûr": 1}  # fmt: skip
    english, infinitive = sampler.weighted(choices).split("/")
    tense = {"espérer": "future"}.get(infinitive, sampler.weighted({"past": 3, "future": 2}))
    link, sure = Link(), infinitive == "être sûr"
    if sure:
        form = "sûr" + "e" * (subject.gender == "f") + "s" * subject.plural
        that = Pair(words("sure", link), words(form, link))
        start = copula(subject, "present", that.english, that.french)
    else:
        third = subject.index == 2
        verb = english_forms.third_person(english) if third else english
        form = french_forms.conjugate(infinitive, "present", subject.index)
        start = join(subject.pair, unit(verb, form))
    if sampler.chance(0.4):
        inner = predicate(sampler, sampler.subject(), person_adjective(sampler), "present")
    else:
        inner = simple_clause(sampler, tense).build()
    return statement(join(start, unit("that", "que"), inner))


def wish(sampler: Sampler) -> Pair:
    """The subjunctive after vouloir que, and after il faut que."""
    while True:
        subject, other = sampler.subject(), sampler.subject()
        if subject.index != other.index and {subject.index, other.index} not in ({0, 3}, {1, 4}):
            break
    inner = simple_clause(sampler, "subjunctive", other)
    rest = build(inner, subject=False)
    to = Link()
    if sampler.chance(0.3):
        must = Link()
        verb = "has to" if other.index == 2 else "have to"
        return statement(
            Pair(
                other.pair.english + words(verb, must) + rest.english,
                words("il faut que", must) + other.pair.french + rest.french,
            )
        )
    tense = sampler.weighted({"present": 3, "conditional": 0})
    start = Clause(subject, sampler.lexicon.verb("want"), tense).build()
    return statement(
        Pair(
            start.english + english_object(other) + words("to", to) + rest.english,
            start.french + words("que", to) + other.pair.french + rest.french,
        )
    )


def condition(sampler: Sampler) -> Pair:
    """If with the present; when with the future in French and the present in English."""
    main = simple_clause(sampler, "future").build()
    if sampler.chance(0.55):
        if sampler.chance(0.4):
            start = sampler.fixed("weather")
        else:
            start = Clause(
                sampler.subject(), _moving(sampler), "present", "pas" if sampler.chance(0.2) else ""
            ).build()
        return statement(join(unit("if", "si"), start, unit(",", ","), main))
    clause = Clause(sampler.subject(), _moving(sampler), "future")
    pair = build(clause)
    index = clause.subject.index
    base = clause.verb.english
    english = []
    for token in pair.english:
        if token.text == base and index == 2:
            token = token._replace(text=english_forms.third_person(base))
        if token.text != "will":
            english.append(token)
    return statement(join(unit("when", "quand"), Pair(english, pair.french), unit(",", ","), main))


def _moving(sampler: Sampler) -> Verb:
    names = {"arrive": 4, "leave": 3, "come back": 3, "go out": 2, "wake up": 2, "fall asleep": 1,
             "go home": 2, "get up": 2}  # fmt: skip
    return sampler.lexicon.verb(sampler.weighted(names), kind="intransitive")


def because(sampler: Sampler) -> Pair:
    """Reasons; "it" takes its gender from the noun before."""
    if sampler.chance(0.55):
        verb = sampler.lexicon.verb(sampler.weighted({"buy": 4, "like": 3, "choose": 2, "sell": 2,
                                                      "repair": 1, "want": 1}))  # fmt: skip
        names = {"buy": "clothing", "like": "building", "choose": "clothing", "sell": "vehicle",
                 "repair": "vehicle", "want": "vehicle"}  # fmt: skip
        noun = sampler.noun((names[verb.english],))
        thing = noun_phrase(noun, "this" if sampler.chance(0.7) else "definite",
                            "pl" in noun.flags)  # fmt: skip
        tense = "present" if verb.flags & {"stative"} else "past"
        start = Clause(sampler.subject(), verb, tense, object=thing).build()
        again = pronoun(thing.reference())
        adjective = sampler.adjective(noun, predicate=True)
        reason = predicate(sampler, again, adjective, "present" if tense == "present" else "past")
    else:
        start = simple_clause(sampler, sampler.weighted({"past": 2, "progressive": 1})).build()
        tense = "past"
        if sampler.chance(0.5):
            reason = sampler.fixed("pastweather")
        else:
            subject = sampler.subject()
            phrase = sampler.phrase("avoir")
            pair = unit(phrase.english, phrase.french)
            reason = copula(subject, "past", pair.english, pair.french, "", "avoir")
    return statement(join(start, unit("because", "parce que"), reason))


def while_(sampler: Sampler) -> Pair:
    """An action that another one interrupts: imperfect against passé composé."""
    background = simple_clause(sampler, "was")
    event = simple_clause(sampler, "past")
    pair = join(background.build(), unit("when", "quand"), event.build())
    return statement(pair)


def passive(sampler: Sampler) -> Pair:
    """The passive, whose participle agrees with its subject."""
    choices = {"build": 2, "write": 3, "steal": 2, "repair": 2, "find": 2, "break": 1, "sell": 1,
               "choose": 1, "paint": 1, "wash": 1, "translate": 1, "hide": 1}  # fmt: skip
    verb = sampler.lexicon.verb(sampler.weighted(choices), kind="transitive")
    noun = sampler.noun(tuple(name for name in verb.objects if name not in ("human", "animal")))
    thing = sampler.noun_phrase(noun, definite=True, adjectives=False)
    link, helper, no = Link(), Link(), Link()
    future = sampler.chance(0.3) and verb.english in ("repair", "sell", "wash", "paint", "build")
    negated = sampler.chance(0.12)
    be = "were" if thing.plural else "was"
    english = words("will" if future else be, helper) + (words("not", no) if negated else [])
    english += words("be" if future else "", helper)
    english += words(english_forms.participle(verb.english), link)
    tense = "future" if future else "present"
    helper_verb = "être" if future else "avoir"
    french = words("ne", no) if negated else []
    french += words(french_forms.conjugate(helper_verb, tense, thing.index), helper)
    french += words("pas", no) if negated else []
    french += words("" if future else "été", helper)
    french += words(french_forms.participle(verb.infinitive, thing.gender, thing.plural), link)
    agent = sampler.subject()
    while agent.pronoun:
        agent = sampler.subject()
    pair = join(thing.pair, Pair(english, french))
    if sampler.chance(0.65):
        return statement(join(pair, unit("by", "par"), agent.pair))
    time = sampler.time("future" if future else "past")
    return statement(join(pair, time) if time else pair)


def senses(sampler: Sampler) -> Pair:
    """Words whose French depends on their neighbours: spend, bank, right, light, last, run."""
    subject = sampler.subject()
    choice = sampler.weighted({
        "spend|passer|literal": 3, "spend|dépenser|money": 3, "turn|tourner|side": 2,
        "save|sauver|animal": 1, "save|économiser|money": 1, "run|diriger|business": 1,
        "raise|élever|animal": 1, "raise|lever|arm": 1, "grow|cultiver|food": 1,
        "win|gagner|match": 2, "miss|rater|transport": 1, "ring|sonner|": 1, "walk|promener|dog": 1,
    })  # fmt: skip
    english, infinitive, kind = choice.split("|")
    reference = sampler.lexicon.verb("clean", "nettoyer")
    verb = replace(reference, english=english, infinitive=infinitive)
    tense = sampler.weighted({"past": 4, "near": 2, "present": 2, "future": 1})
    if kind == "literal":
        tail = join(sampler.fixed("duration"), sampler.goal("in"))
    elif kind == "money":
        many = sampler.phrase("number")
        tail = join(unit(many.english, many.french), unit("euros", "euros"))
        if sampler.chance(0.4):
            tail = join(unit("too much", "trop de"), unit("money", "argent"))
    elif kind == "side":
        tail = literal(sampler.weighted({"left=à~gauche": 1, "right=à~droite": 1}))
        tail = join(tail, unit("after", "après"), noun_phrase(sampler.noun(("building",))).pair)
    elif kind == "":
        subject = replace(pronoun("it_m"), pair=unit("the phone", "le_ téléphone"))
        tail = sampler.fixed("clock")
    elif kind == "business":
        tail = noun_phrase(sampler.noun(("building",))).pair
    elif kind == "arm":
        tail = unit("the right arm", "le_ bras droit")
    elif kind == "dog":
        tail = sampler.noun_phrase(sampler.lexicon.noun("dog"), subject.reference()).pair
    else:
        noun = sampler.noun((kind,))
        plural = english in ("raise", "grow")
        tail = noun_phrase(noun, "indefinite" if plural else "this", plural).pair
    pair = Clause(subject, verb, tense, complements=(tail,)).build()
    return statement(pair)

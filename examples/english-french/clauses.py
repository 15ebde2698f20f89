"""Clauses of the example: verb groups, negation, clitics, agreement, in both languages at once."""

from dataclasses import dataclass

import english_forms
import french_forms
from lexicon import Phrase, Verb
from phrases import PRONOUNS, REFLEXIVE, NounPhrase, english_object, stressed
from tokens import Link, Pair, Token, join, words

# English tense -> tense of the French finite verb; "compound" is the passé composé.
FRENCH_TENSE = {
    "present": "present",
    "progressive": "present",
    "since": "present",
    "past": "compound",
    "perfect": "compound",
    "was": "imperfect",
    "used": "imperfect",
    "future": "future",
    "near": "near",
    "conditional": "conditional",
    "subjunctive": "subjunctive",
}
# English, French of each negation; "rien" and "personne" also bring their own object.
NEGATIONS = {
    "pas": "not",
    "jamais": "never",
    "plus": "no longer",
    "rien": "not",
    "personne": "not",
    "que": "only",
}
NEGATIVE_OBJECTS = {"rien": "anything", "personne": "anyone"}
# Modals whose English past is a state in the past: "could" is "pouvait", not "a pu".
_STATIVE_MODALS_WORDS = "vouloir pouvoir espérer aimer préférer détester avoir"
STATIVE_MODALS = frozenset(_STATIVE_MODALS_WORDS.split())


@dataclass(frozen=True)
class Clause:
    """What a clause says; ``build`` gives the words."""

    subject: NounPhrase
    verb: Verb
    # A key of FRENCH_TENSE.
    tense: str = "present"
    # "" or a key of NEGATIONS.
    negation: str = ""
    # Often, always ...: between the parts of the verb.
    adverb: Phrase | None = None
    # A pronoun here becomes a clitic, or "à lui" after a verb that asks for it.
    object: NounPhrase | None = None
    recipient: NounPhrase | None = None
    # A place that "y" stands for, with its English word ("there").
    there: bool = False
    modal: Verb | None = None
    complements: tuple[Pair, ...] = ()
    # The object stands before the verb in a relative clause: the participle agrees with it.
    extracted: NounPhrase | None = None

    def build(self) -> Pair:
        """Return the aligned words of the statement, not yet contracted and elided."""
        return build(self)


@dataclass(frozen=True)
class Links:
    """The links that both sides of a clause share."""

    verb: Link
    auxiliary: Link
    modal: Link
    negation: Link
    adverb: Link
    there: Link
    negative_object: Link


def english_auxiliaries(
    tense: str, word: str, index: int, negated: bool, question: bool
) -> tuple[list[str], str]:
    """Return the auxiliaries and the form of the first full verb."""
    third, plural = index == 2, index in (1, 3, 4, 5)
    be = "am" if index == 0 else "are" if plural else "is"
    have = "has" if third else "have"
    if word in ("can", "must"):
        if word == "can" and tense != "present":
            return ({"past": ["could"], "conditional": ["could"]}[tense], "")
        return ([word], "")
    if tense == "progressive":
        return ([be], english_forms.gerund(word))
    if tense in ("perfect", "since"):
        return ([have], english_forms.participle(word))
    if tense == "was":
        return (["were" if plural else "was"], english_forms.gerund(word))
    if tense == "future":
        return (["will"], word)
    if tense == "conditional":
        return (["would"], word)
    if tense == "near":
        return ([be], "going to " + word)
    if tense == "used":
        return ([], "used to " + word)
    if tense == "subjunctive":  # "i want you to come": the caller writes "to"
        return ([], word)
    past = tense == "past"
    if word == "be":
        return ([("were" if plural else "was") if past else be], "")
    if negated or question:
        return (["did" if past else "does" if third else "do"], word)
    if past:
        return ([], english_forms.past(word))
    return ([], english_forms.third_person(word) if third else word)


def english_group(clause: Clause, links: Links, question: bool) -> tuple[list[Token], list[Token]]:
    """Return the words before the subject of a question, and those after the subject."""
    first = clause.modal or clause.verb
    negated = clause.negation in ("pas", "rien", "personne")
    auxiliaries, full = english_auxiliaries(
        clause.tense, first.english, clause.subject.index, negated, question
    )
    compound = FRENCH_TENSE[clause.tense] in ("compound", "near") and not _is_imperfect(clause)
    first_link = links.modal if clause.modal else links.verb
    link = links.auxiliary if compound else first_link
    auxiliary_tokens = [token for word in auxiliaries for token in words(word, link)]
    middle: list[Token] = []
    if clause.negation:
        middle += words(NEGATIONS[clause.negation], links.negation)
    if clause.adverb:
        middle += words(clause.adverb.english, links.adverb)
    if full.startswith("going to "):
        group = words("going to", links.auxiliary) + words(full[9:], first_link)
    elif not auxiliaries and compound:
        group = words(full, first_link, links.auxiliary)
    else:
        group = words(full, first_link)
    if clause.modal:
        modal, verb = clause.modal, clause.verb
        group += words(" ".join(modal.english_tail), links.modal)
        if modal.gerund:
            group += words(english_forms.gerund(verb.english), links.verb)
        else:
            group += words("" if "bare" in modal.flags else "to", links.modal)
            group += words(verb.english, links.verb)
    if question:
        return auxiliary_tokens[:1], auxiliary_tokens[1:] + middle + group
    return [], auxiliary_tokens[:1] + middle + auxiliary_tokens[1:] + group


def english_rest(clause: Clause, links: Links) -> list[Token]:
    tail = words(" ".join(clause.verb.english_tail), links.verb)
    target, recipient = clause.object, clause.recipient
    result: list[Token] = []
    if target and target.pronoun and clause.verb.separable:
        result += english_object(target) + tail
    elif (
        target
        and recipient
        and recipient.pronoun
        and not target.pronoun
        and "to" not in clause.verb.flags
    ):
        result += tail + english_object(recipient) + english_object(target)
        recipient = None
    else:
        result += tail + (english_object(target) if target else [])
    if recipient:
        result += words("to", links.there) + english_object(recipient)
    if clause.negation in NEGATIVE_OBJECTS:
        result += words(NEGATIVE_OBJECTS[clause.negation], links.negative_object)
    if clause.there:
        result += words("there", links.there)
    return result


def _is_imperfect(clause: Clause) -> bool:
    """Say whether an English past is a French imperfect: states ("i knew", "i wanted to")."""
    if clause.tense != "past":
        return False
    if clause.modal:
        return clause.modal.infinitive in STATIVE_MODALS
    return "stative" in clause.verb.flags


def clitics_of(clause: Clause, links: Links) -> list[Token]:
    """Return reflexive, direct, indirect, y and en, in the order that French wants."""
    slots: dict[int, list[Token]] = {}
    if clause.verb.reflexive:
        slots[0] = words(REFLEXIVE[clause.subject.index], links.verb)
    target, recipient = clause.object, clause.recipient
    if target and target.pronoun and not _stays_behind(clause):
        forms, token = PRONOUNS[target.pronoun], target.pair.french[0]
        third = forms.row in (2, 5)
        if clause.verb.preposition == "de":
            slots[4] = [token._replace(text="en")]
        elif clause.verb.preposition == "à" and not target.human:
            slots[3] = [token._replace(text="y")]
        elif clause.verb.preposition == "à":
            slots[2 if third else 0] = [token._replace(text=forms.indirect)]
        else:
            slots[1 if third else 0] = [token._replace(text=forms.direct)]
    if recipient and recipient.pronoun:
        forms = PRONOUNS[recipient.pronoun]
        slot = 2 if forms.row in (2, 5) else 0
        slots[slot] = [recipient.pair.french[0]._replace(text=forms.indirect)]
    if clause.there:
        slots[3] = words("y", links.there)
    return [token for slot in sorted(slots) for token in slots[slot]]


def _stays_behind(clause: Clause) -> bool:
    """Say whether the pronoun follows as "à lui", "de lui" instead of being a clitic."""
    target, verb = clause.object, clause.verb
    if target is None or not target.human or not verb.preposition:
        return False
    return verb.preposition == "de" or "stressed" in verb.flags or verb.reflexive


def _agreeing_participle(clause: Clause, verb: Verb) -> str:
    subject, target = clause.subject, clause.extracted
    if french_forms.auxiliary(verb.infinitive, verb.reflexive) == "être":
        return french_forms.participle(verb.infinitive, subject.gender, subject.plural)
    if verb is clause.verb and not verb.preposition and not verb.french_tail:
        if clause.object and clause.object.pronoun:
            target = clause.object
        if target:
            return french_forms.participle(verb.infinitive, target.gender, target.plural)
    return french_forms.participle(verb.infinitive)


def french_group(clause: Clause, links: Links) -> list[Token]:
    first = clause.modal or clause.verb
    first_link = links.modal if clause.modal else links.verb
    tense = "imperfect" if _is_imperfect(clause) else FRENCH_TENSE[clause.tense]
    index = clause.subject.index
    clitics = clitics_of(clause, links)
    after: list[Token] = []
    if tense == "near":
        finite = words(french_forms.conjugate("aller", "present", index), links.auxiliary)
        after = words(first.infinitive, first_link)
    elif tense == "compound":
        helper = french_forms.auxiliary(first.infinitive, first.reflexive)
        finite = words(french_forms.conjugate(helper, "present", index), links.auxiliary)
        after = words(_agreeing_participle(clause, first), first_link)
    else:
        finite = words(french_forms.conjugate(first.infinitive, tense, index), first_link)
    before_finite: list[Token] = []
    if clause.modal:
        # Clitics climb no further than the infinitive: "je veux le voir".
        after += words(" ".join((*first.french_tail, first.preposition)), links.modal)
        after += clitics + words(clause.verb.infinitive, links.verb)
    elif tense == "near":
        after = clitics + after
    else:
        before_finite = clitics
    negative = [w for w in (clause.negation,) if w in ("pas", "jamais", "plus", "rien")]
    middle = [Token(word, _negative_links(clause, links)) for word in negative]
    if clause.adverb:
        middle += words(clause.adverb.french, links.adverb)
    ne = words("ne", links.negation) if clause.negation else []
    group = ne + before_finite + finite + middle + after
    tail = clause.verb.french_tail
    if tail == ("bien",) and clause.negation:  # "i do not like": "je n'aime pas"
        tail = ()
    return group + words(" ".join(tail), links.verb)


def _negative_links(clause: Clause, links: Links) -> frozenset[Link]:
    second = links.negative_object if clause.negation in NEGATIVE_OBJECTS else links.negation
    return frozenset((second,))


def french_rest(clause: Clause, links: Links) -> list[Token]:
    result: list[Token] = []
    target, recipient, verb = clause.object, clause.recipient, clause.verb
    if clause.negation == "que":
        result += words("que", links.negation)
    if clause.negation == "personne":
        result += words(verb.preposition, links.verb) + words("personne", links.negative_object)
    if target and (not target.pronoun or _stays_behind(clause)):
        result += words(verb.preposition, links.verb) + stressed(target)
    if recipient and not recipient.pronoun:
        result += words("à", links.there) + recipient.pair.french
    return result


def new_links() -> Links:
    return Links(*(Link() for _ in range(7)))


def complements(clause: Clause) -> Pair:
    return join(*clause.complements)


def build(clause: Clause, subject: bool = True) -> Pair:
    """Return a statement; without its subject, what follows the subject."""
    links = new_links()
    _, group = english_group(clause, links, question=False)
    rest = complements(clause)
    start = clause.subject.pair if subject else Pair([], [])
    return Pair(
        start.english + group + english_rest(clause, links) + rest.english,
        start.french + french_group(clause, links) + french_rest(clause, links) + rest.french,
    )

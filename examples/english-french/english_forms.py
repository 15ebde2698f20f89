"""English word forms of the example: verbs, plurals, articles, comparatives."""

import re

# Past and past participle of the irregular verbs; one word where the two are the same.
IRREGULAR = {
    "be": "was been", "have": "had", "do": "did done", "see": "saw seen", "buy": "bought",
    "eat": "ate eaten", "know": "knew known", "find": "found", "read": "read", "take": "took taken",
    "drink": "drank drunk", "write": "wrote written", "speak": "spoke spoken", "lose": "lost",
    "understand": "understood", "meet": "met", "sell": "sold", "hear": "heard", "think": "thought",
    "forget": "forgot forgotten", "wear": "wore worn", "break": "broke broken", "leave": "left",
    "put": "put", "choose": "chose chosen", "bring": "brought", "pay": "paid", "build": "built",
    "cut": "cut", "hide": "hid hidden", "sing": "sang sung", "drive": "drove driven",
    "steal": "stole stolen", "throw": "threw thrown", "give": "gave given", "feed": "fed",
    "hurt": "hurt", "get": "got", "wake": "woke woken", "sleep": "slept", "come": "came come",
    "fall": "fell fallen", "run": "ran run", "swim": "swam swum", "go": "went gone",
    "lie": "lied", "sit": "sat", "show": "showed shown", "send": "sent", "lend": "lent",
    "tell": "told", "begin": "began begun", "make": "made", "feel": "felt", "grow": "grew grown",
    "say": "said", "become": "became become", "dream": "dreamt", "keep": "kept", "win": "won",
    "spend": "spent", "ring": "rang rung",
}  # fmt: skip
# Verbs of more than one syllable whose last consonant is doubled, or short ones where it is not.
_DOUBLED_WORDS = "travel stop plan forget begin run swim sit get put cut prefer rub chat admit"
DOUBLED = frozenset(_DOUBLED_WORDS.split())


def third_person(verb: str) -> str:
    """Return the third person singular of the present.

    >>> third_person("watch"), third_person("study"), third_person("have")
    ('watches', 'studies', 'has')
    """
    special = {"be": "is", "have": "has", "can": "can", "must": "must"}
    return special.get(verb) or plural(verb) if verb != "go" and verb != "do" else verb + "es"


def past(verb: str) -> str:
    """Return the simple past (``was`` for be)."""
    return IRREGULAR[verb].split()[0] if verb in IRREGULAR else _regular_past(verb)


def participle(verb: str) -> str:
    """Return the past participle."""
    return IRREGULAR[verb].split()[-1] if verb in IRREGULAR else _regular_past(verb)


def _regular_past(verb: str) -> str:
    if verb.endswith("e"):
        return verb + "d"
    if re.search("[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    return (verb + verb[-1] if verb in DOUBLED else verb) + "ed"


def gerund(verb: str) -> str:
    """Return the form in -ing.

    >>> gerund("lie"), gerund("take"), gerund("stop"), gerund("see")
    ('lying', 'taking', 'stopping', 'seeing')
    """
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if re.search("[^eoy]e$", verb) and verb != "be":
        return verb[:-1] + "ing"
    return (verb + verb[-1] if verb in DOUBLED else verb) + "ing"


def plural(noun: str) -> str:
    """Return the regular plural of a noun.

    >>> plural("box"), plural("baby"), plural("day"), plural("church")
    ('boxes', 'babies', 'days', 'churches')
    """
    if re.search("(s|x|z|ch|sh)$", noun):
        return noun + "es"
    if re.search("[^aeiou]y$", noun):
        return noun[:-1] + "ies"
    return noun + "s"


def has_vowel_sound(word: str) -> bool:
    """Say whether ``an`` rather than ``a`` stands before ``word``."""
    if re.match("(uni|use|euro|one)", word):
        return False
    return word[:1] in tuple("aeiou") or word.startswith(("hour", "honest"))


# Adjectives of two syllables that still take -er and -est.
_SHORT_COMPARISON_WORDS = (
    "scary dirty busy angry happy funny pretty heavy noisy easy quiet simple lazy hungry"
)
SHORT_COMPARISON = frozenset(_SHORT_COMPARISON_WORDS.split())


def compare(adjective: str, ending: str) -> str | None:
    """Return the comparative ("er") or superlative ("est"), or None where ``more`` is needed.

    >>> compare("big", "er"), compare("happy", "est"), compare("expensive", "er")
    ('bigger', 'happiest', None)
    """
    special = {"good": ("better", "best"), "bad": ("worse", "worst")}
    if adjective in special:
        return special[adjective][ending == "est"]
    syllables = len(re.findall("[aeiouy]+", adjective.removesuffix("e")))
    if syllables > 1 and adjective not in SHORT_COMPARISON:
        return None
    if adjective.endswith("y") and adjective != "shy":
        return adjective[:-1] + "i" + ending
    if adjective.endswith("e"):
        return adjective + ending[1:]
    if re.search("[^aeiou][aeiou][bdgnt]$", adjective):
        return adjective + adjective[-1] + ending
    return adjective + ending

"""French word forms of the example: verbs, participles, adjectives, plurals, elision.

Regular verbs follow their group and its spelling changes; every irregular verb is spelled out in
``IRREGULAR`` (present, past participle, future stem, subjunctive), and the key is matched as the
longest end of the infinitive, so that ``venir`` also serves ``revenir`` and ``devenir``.
"""

import re

TENSES = ("present", "imperfect", "future", "conditional", "subjunctive")

# Present of je tu il nous vous ils | past participle | future stem | subjunctive where it is not
# made from the third person plural and the imperfect.
IRREGULAR = {
    "être": "suis es est sommes êtes sont|été|ser|sois sois soit soyons soyez soient",
    "avoir": "ai as a avons avez ont|eu|aur|aie aies ait ayons ayez aient",
    "aller": "vais vas va allons allez vont|allé|ir|aille ailles aille allions alliez aillent",
    "faire": "fais fais fait faisons faites font|fait|fer|"
    "fasse fasses fasse fassions fassiez fassent",
    "venir": "viens viens vient venons venez viennent|venu|viendr",
    "tenir": "tiens tiens tient tenons tenez tiennent|tenu|tiendr",
    "prendre": "prends prends prend prenons prenez prennent|pris|prendr",
    "mettre": "mets mets met mettons mettez mettent|mis|mettr",
    "battre": "bats bats bat battons battez battent|battu|battr",
    "voir": "vois vois voit voyons voyez voient|vu|verr",
    "croire": "crois crois croit croyons croyez croient|cru|croir",
    "savoir": "sais sais sait savons savez savent|su|saur|"
    "sache saches sache sachions sachiez sachent",
    "connaître": "connais connais connaît connaissons connaissez connaissent|connu|connaîtr",
    "vouloir": "veux veux veut voulons voulez veulent|voulu|voudr|"
    "veuille veuilles veuille voulions vouliez veuillent",
    "pouvoir": "peux peux peut pouvons pouvez peuvent|pu|pourr|"
    "puisse puisses puisse puissions puissiez puissent",
    "devoir": "dois dois doit devons devez doivent|dû|devr",
    "dire": "dis dis dit disons dites disent|dit|dir",
    "lire": "lis lis lit lisons lisez lisent|lu|lir",
    "écrire": "écris écris écrit écrivons écrivez écrivent|écrit|écrir",
    "boire": "bois bois boit buvons buvez boivent|bu|boir",
    "recevoir": "reçois reçois reçoit recevons recevez reçoivent|reçu|recevr",
    "partir": "pars pars part partons partez partent|parti|partir",
    "sortir": "sors sors sort sortons sortez sortent|sorti|sortir",
    "dormir": "dors dors dort dormons dormez dorment|dormi|dormir",
    "servir": "sers sers sert servons servez servent|servi|servir",
    "sentir": "sens sens sent sentons sentez sentent|senti|sentir",
    "mentir": "mens mens ment mentons mentez mentent|menti|mentir",
    "courir": "cours cours court courons courez courent|couru|courr",
    "cueillir": "cueille cueilles cueille cueillons cueillez cueillent|cueilli|cueiller",
    "ouvrir": "ouvre ouvres ouvre ouvrons ouvrez ouvrent|ouvert|ouvrir",
    "offrir": "offre offres offre offrons offrez offrent|offert|offrir",
    "couvrir": "couvre couvres couvre couvrons couvrez couvrent|couvert|couvrir",
    "vivre": "vis vis vit vivons vivez vivent|vécu|vivr",
    "suivre": "suis suis suit suivons suivez suivent|suivi|suivr",
    "conduire": "conduis conduis conduit conduisons conduisez conduisent|conduit|conduir",
    "construire": "construis construis construit construisons construisez construisent"
    "|construit|construir",
    "traduire": "traduis traduis traduit traduisons traduisez traduisent|traduit|traduir",
    "rire": "ris ris rit rions riez rient|ri|rir",
    "plaire": "plais plais plaît plaisons plaisez plaisent|plu|plair",
    "naître": "nais nais naît naissons naissez naissent|né|naîtr",
    "mourir": "meurs meurs meurt mourons mourez meurent|mort|mourr",
    "envoyer": "envoie envoies envoie envoyons envoyez envoient|envoyé|enverr",
    "peindre": "peins peins peint peignons peignez peignent|peint|peindr",
    "éteindre": "éteins éteins éteint éteignons éteignez éteignent|éteint|éteindr",
    "plaindre": "plains plains plaint plaignons plaignez plaignent|plaint|plaindr",
    "asseoir": "assieds assieds assied asseyons asseyez asseyent|assis|assiér",
}
_ETRE_VERBS_WORDS = (
    "aller retourner venir arriver partir sortir rester tomber naître mourir rentrer revenir "
    "devenir"
)
ETRE_VERBS = frozenset(_ETRE_VERBS_WORDS.split())
_ASPIRATED_WORDS = (
    "haricot héros hibou hiboux hamster haut haute hauts hautes homard hache harpe handball "
    "honte hérisson hâte huit onze oui haine hollande huitième"
)
ASPIRATED = frozenset(_ASPIRATED_WORDS.split())
# No elision before these, though they begin with a vowel letter.
NO_ELISION = frozenset(["oui", "onze", "huit", "onzième"])
ENDINGS = {
    "imperfect": "ais ais ait ions iez aient",
    "conditional": "ais ais ait ions iez aient",
    "future": "ai as a ons ez ont",
}


def is_vowel_initial(word: str) -> bool:
    """Say whether ``le``, ``de``, ``je`` ... lose their vowel before ``word``."""
    if word in ASPIRATED or word in NO_ELISION:
        return False
    return word[:1] in tuple("aàâeéèêiîoôuûhœæ") or word == "y"


def _irregular(infinitive: str) -> tuple[str, list[str]] | None:
    keys = [key for key in IRREGULAR if infinitive.endswith(key)]
    if not keys:
        return None
    key = max(keys, key=len)
    return infinitive[: len(infinitive) - len(key)], IRREGULAR[key].split("|")


def _mute_stem(infinitive: str) -> str:
    """Return the stem of a verb in -er before a mute ending (j'achète, je nettoie, j'appelle)."""
    stem = infinitive[:-2]
    if infinitive in ("appeler", "rappeler", "jeter", "rejeter"):
        return stem + stem[-1]
    if re.search("[aou]y$", stem):
        return stem[:-1] + "i"
    return re.sub("[eé]((?:[bcdfgkpt][lr]|gn|[bcdfgklmnprstvz])u?)$", r"è\1", stem)


def _present(infinitive: str) -> list[str]:
    found = _irregular(infinitive)
    if found:
        return [found[0] + form for form in found[1][0].split()]
    stem = infinitive[:-2]
    if infinitive.endswith("er"):
        mute = _mute_stem(infinitive)
        soft = re.sub("g$", "ge", re.sub("c$", "ç", stem))
        return [mute + "e", mute + "es", mute + "e", soft + "ons", stem + "ez", mute + "ent"]
    if infinitive.endswith("ir"):
        return [stem + end for end in ["is", "is", "it", "issons", "issez", "issent"]]
    third = stem if stem.endswith("d") else stem + "t"
    return [stem + "s", stem + "s", third, stem + "ons", stem + "ez", stem + "ent"]


def _imperfect(infinitive: str) -> list[str]:
    stem = "ét" if infinitive == "être" else _present(infinitive)[3][:-3]
    forms = []
    for ending in ENDINGS["imperfect"].split():
        plain = stem
        if ending.startswith("i"):
            plain = re.sub("ge$", "g", re.sub("ç$", "c", stem))
        forms.append(plain + ending)
    return forms


def _future_stem(infinitive: str) -> str:
    found = _irregular(infinitive)
    if found:
        return found[0] + found[1][2]
    if infinitive.endswith("er"):
        # préférer keeps its é; acheter, appeler and nettoyer change as before a mute e.
        mute = _mute_stem(infinitive)
        accented = re.search("é[^aeiouyèé]+u?er$", infinitive)
        return (infinitive[:-2] if accented else mute) + "er"
    return infinitive.removesuffix("e")


def _subjunctive(infinitive: str) -> list[str]:
    found = _irregular(infinitive)
    if found and len(found[1]) > 3:
        return [found[0] + form for form in found[1][3].split()]
    stem, imperfect = _present(infinitive)[5][:-3], _imperfect(infinitive)
    return [stem + "e", stem + "es", stem + "e", imperfect[3], imperfect[4], stem + "ent"]


def conjugate(infinitive: str, tense: str, index: int) -> str:
    """Return one form of a verb.

    :param tense: one of ``TENSES``.
    :param index: 0 to 5 for je, tu, il/elle, nous, vous, ils/elles.

    >>> conjugate("acheter", "present", 0), conjugate("manger", "imperfect", 3)
    ('achète', 'mangions')
    """
    if tense == "present":
        return _present(infinitive)[index]
    if tense == "imperfect":
        return _imperfect(infinitive)[index]
    if tense == "subjunctive":
        return _subjunctive(infinitive)[index]
    return _future_stem(infinitive) + ENDINGS[tense].split()[index]


def imperative(infinitive: str, index: int) -> str:
    """Return the imperative for tu (1), nous (3) or vous (4).

    >>> imperative("donner", 1), imperative("être", 4)
    ('donne', 'soyez')
    """
    if infinitive in ("être", "avoir", "savoir"):
        form = _subjunctive(infinitive)[index]
        form = re.sub("chi(ons|ez)$", r"ch\1", form)
    else:
        form = _present(infinitive)[index]
    # In the second person the s falls after e and in "va": donne, ouvre, va.
    return form[:-1] if index == 1 and re.search("(es|vas)$", form) else form


def participle(infinitive: str, gender: str = "m", plural: bool = False) -> str:
    """Return the past participle agreeing with ``gender`` ("m" or "f") and number.

    >>> participle("prendre", "f", True)
    'prises'
    """
    found = _irregular(infinitive)
    if found:
        form = found[0] + found[1][1]
    else:
        form = infinitive[:-2] + {"er": "é", "ir": "i", "re": "u"}[infinitive[-2:]]
    if gender == "f":
        form = form.replace("dû", "du") + "e"
    return form if not plural or form.endswith("s") else form.replace("dû", "du") + "s"


def auxiliary(infinitive: str, reflexive: bool) -> str:
    """Return ``être`` or ``avoir``, the auxiliary of the passé composé."""
    return "être" if reflexive or infinitive in ETRE_VERBS else "avoir"


def noun_plural(noun: str) -> str:
    """Return the regular plural of a noun or a masculine adjective.

    >>> noun_plural("journal"), noun_plural("gâteau"), noun_plural("nez")
    ('journaux', 'gâteaux', 'nez')
    """
    if noun[-1] in "sxz":
        return noun
    if re.search("(eau|eu|au)$", noun) and noun not in ("bleu", "pneu"):
        return noun + "x"
    if noun.endswith("al") and noun not in ("bal", "festival", "carnaval"):
        return noun[:-2] + "aux"
    return noun + "s"


def feminine(adjective: str) -> str:
    """Return the regular feminine of an adjective.

    >>> [feminine(word) for word in ("heureux", "fier", "ancien", "vert", "rouge")]
    ['heureuse', 'fière', 'ancienne', 'verte', 'rouge']
    """
    if adjective.endswith("e"):
        return adjective
    for ending, replacement in (
        ("eux", "euse"),
        ("er", "ère"),
        ("f", "ve"),
        ("ien", "ienne"),
        ("bon", "bonne"),
        ("el", "elle"),
    ):
        if adjective.endswith(ending):
            return adjective.removesuffix(ending) + replacement
    return adjective + "e"

"""Write the moses.ini of a system, as train-model.perl does."""

from collections.abc import Sequence

from moses_integration.building.extraction import REORDERING
from moses_integration.text_settings import TextSettings

_REORDERING_SCORES = 6  # three classes, in both directions

_START = """\
#########################
### MOSES CONFIG FILE ###
#########################
{settings}
# input factors
[input-factors]
0

# mapping steps
[mapping]
0 T 0

[distortion-limit]
{limit}

# feature functions
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={table} input-factor=0 \
output-factor=0
"""
_WEIGHTS = """\
Distortion
{models}
# dense weights for feature functions
[weight]
# The default weights are not optimised for translation quality: tune them.
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
"""


def moses_ini(
    table: str,
    reordering: str | None,
    models: Sequence[tuple[str, int]],
    *,
    distortion_limit: int,
    text: TextSettings,
) -> str:
    """Return the text of a moses.ini with Moses' default weights.

    :param table: the path of the phrase table.
    :param reordering: the path of the reordering table, if there is one.
    :param models: the path and the order of each n-gram model.
    :param text: how the text was prepared, recorded in comments.
    """
    settings = "".join(f"{line}\n" for line in text.lines())
    lines = [_START.format(settings=settings, limit=distortion_limit, table=table)]
    weights = ""
    if reordering is not None:
        lines.append(
            f"LexicalReordering name=LexicalReordering0 num-features={_REORDERING_SCORES} "
            f"type={REORDERING}-allff input-factor=0 output-factor=0 path={reordering}\n"
        )
        weights = f"LexicalReordering0={' 0.3' * _REORDERING_SCORES}\n"
    features = [
        f"KENLM name=LM{number} factor=0 path={path} order={order}\n"
        for number, (path, order) in enumerate(models)
    ]
    lines += [_WEIGHTS.format(models="".join(features)), weights, "Distortion0= 0.3\n"]
    lines += [f"LM{number}= 0.5\n" for number in range(len(models))]
    return "".join(lines)

"""KenLM's n-gram models: load them with its errors as ours, and spell words as it reads them."""

import importlib.metadata
import re

import kenlm

from phrasescore.errors import DataError
from phrasescore.io.text import is_stream, open_input

# How kenlm is built for models of a higher order: read in setup.py of the release that
# constraints.txt pins, and tried. Its wheels and plain builds take models up to order 6.
REBUILD = (
    "MAX_ORDER={order} pip install --force-reinstall --no-deps --no-cache-dir --no-binary kenlm "
    "kenlm=={version}"
)

# What kenlm takes for the end of a word and the rest of this project does not: a word that holds
# one is unknown to every model, and so is U+FFFD.
WHITE_SPACE = str.maketrans(dict.fromkeys("\0\t\n\v\f\r", "\ufffd"))
_SYMBOLS = frozenset({"<s>", "</s>", "<unk>"})


def load_kenlm(path: str) -> kenlm.Model:
    """Return the model of an ARPA file, plain or ``.gz``, or of a binary that build_binary made.

    :raises DataError: if the file is no model, or of a higher order than kenlm was built for.
    """
    if is_stream(path):
        raise DataError(path, None, "expected a file: KenLM cannot read a stream")
    with open_input(path):
        pass  # a file that is missing or cannot be read is named as everywhere else
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    try:
        return kenlm.Model(path, config)
    except OSError as error:
        raise DataError(path, None, _problem(str(error))) from error


def plain_word(word: str) -> str:
    """Return a word of a text as KenLM has to be asked for it; a literal symbol is ``<unk>``."""
    return "<unk>" if word in _SYMBOLS else word.translate(WHITE_SPACE)


def _problem(message: str) -> str:
    """Return kenlm's message about a file as one line."""
    order = re.search(
        r"model has order (\d+) but KenLM was compiled to support up to (\d+)", message
    )
    if order is not None:
        command = REBUILD.format(order=order[1], version=importlib.metadata.version("kenlm"))
        return (
            f"expected a model of order {order[2]} at most, found order {order[1]}; kenlm has to "
            f"be built again for it: {command}"
        )
    if "support was not compiled in" in message:
        return "this kenlm was built without zlib and cannot read .gz: unpack the file"
    # "Cannot read model 'x' (lm/file.cc:1 in void f() threw X because `condition'. What it is.)"
    said = re.search(r" threw [\w:]+(?: because `.*?')?\.(.+)\)$", message)
    said = said or re.search(r"^Cannot read model '.*?' \((.+)\)$", message)
    reason = " ".join((said[1] if said else message).split())
    return f"expected an ARPA file or a KenLM binary; kenlm says: {reason}"

"""A slow reader and evaluator of NPLM's text model, in float64 numpy.

Written from NPLM's sources (src/model.cpp, neuralLM.h, propagator.h, vocabulary.h) and Moses'
BilingualLM.cpp and bilingual-lm/BiLM_NPLM.cpp, and from nothing else; it shares no code with the
package.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _rectifier(values: Array) -> Array:
    return np.maximum(values, 0.0)


_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"rectifier": _rectifier, "tanh": np.tanh}


class ReferenceNplm:
    """What Moses' NeuralLM computes from a file.

    :ivar config: the lines of ``\\config``.
    :ivar sections: the lines of each other section.
    """

    def __init__(self, path: Path) -> None:
        self.sections: dict[str, list[str]] = {}
        lines = iter(path.read_text(encoding="utf-8").split("\n"))
        for name in lines:
            if name == "\\end":
                break
            if name != "":
                # A section ends at an empty line: getline(file, line) && line != "".
                self.sections[name] = list(iter(lines.__next__, ""))
        self.config = dict(line.split(" ") for line in self.sections.pop("\\config"))

    def matrix(self, section: str) -> NDArray[np.float32]:
        """Return the numbers of a section, ``(rows, columns)``, as a float."""
        rows = [line.split(" ") for line in self.sections[f"\\{section}"]]
        return np.array(rows, dtype=np.float32)

    def lookup(self, word: str) -> int:
        """Return the id of a word, by the input vocabulary: Moses looks up both sides there."""
        ids = {known: place for place, known in enumerate(self.sections["\\input_vocab"])}
        return ids.get(word, ids["<unk>"])

    def ngram(self, words: Sequence[str]) -> list[int]:
        """Return an n-gram's ids, padded before as lookup_ngram does it."""
        ids = [self.lookup(word) for word in words]
        start, null = self.lookup("<s>"), self.lookup("<null>")
        missing = int(self.config["ngram_size"]) - len(ids)
        return [start if ids[0] == start else null] * missing + ids

    def value(self, words: Sequence[str]) -> float:
        return self.value_of_ids(self.ngram(words))

    def value_of_ids(self, ids: Sequence[int]) -> float:
        """Return the same of a whole n-gram, by the places of words in the embeddings."""
        *context, predicted = ids
        assert len(ids) == int(self.config["ngram_size"])
        activation = _ACTIVATIONS[self.config["activation_function"]]
        embeddings = self.matrix("input_embeddings").astype(np.float64)
        layer = np.concatenate([embeddings[word] for word in context])
        for number in (1, 2) if int(self.config["num_hidden"]) else (1,):
            weights = self.matrix(f"hidden_weights {number}").astype(np.float64)
            layer = activation(weights @ layer + self.matrix(f"hidden_biases {number}")[:, 0])
        row = self.matrix("output_weights")[predicted].astype(np.float64)
        return float(row @ layer + self.matrix("output_biases")[predicted, 0])


class ReferenceBilingual:
    """What Moses' BilingualNPLM computes from its files.

    :param arguments: of the feature's line in moses.ini.
    """

    def __init__(self, arguments: dict[str, str]) -> None:
        self.nplm = ReferenceNplm(Path(arguments["path"]))
        self.target_ngrams = int(arguments["order"]) - 1
        self.source_ngrams = 2 * int(arguments["source_window"]) + 1
        order = self.target_ngrams + self.source_ngrams + 1
        assert order == int(self.nplm.config["ngram_size"]), "Wrong order of neuralLM"
        # while (infile >> raw_word): insert(word, counter++); the first of equal words stays.
        self.target_ids: dict[str, int] = {}
        self.source_ids: dict[str, int] = {}
        counter = 0
        self.unknown = []
        for ids, key in ((self.target_ids, "target_vocab"), (self.source_ids, "source_vocab")):
            self.unknown.append(counter)
            for word in Path(arguments[key]).read_text(encoding="utf-8").split():
                ids.setdefault(word, counter)
                counter += 1
        assert counter == int(self.nplm.config["input_vocab_size"])

    def word_scores(
        self, source: Sequence[str], target: Sequence[str], affiliations: Sequence[int]
    ) -> list[float]:
        """Return what Moses takes for log p of each target word.

        :param affiliations: the place of each one's source word.
        """
        unknown_target, unknown_source = self.unknown
        half = (self.source_ngrams - 1) // 2
        found = []
        for index, middle in enumerate(affiliations):
            ids = []
            for j in range(middle - half, middle + half + 1):
                word = "<s>" if j < 0 else "</s>" if j >= len(source) else source[j]
                ids.append(self.source_ids.get(word, unknown_source))
            for i in range(index - self.target_ngrams, index + 1):
                ids.append(self.target_ids.get("<s>" if i < 0 else target[i], unknown_target))
            found.append(self.nplm.value_of_ids(ids))
        return found

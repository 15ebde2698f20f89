"""The weights of a moses.ini: those in ``[weight]``, and sparse ones in a file.

``[weight-file]`` names a file of sparse weights, a name and a value per line. Those in ``[weight]``
go before them (moses/StaticData.cpp, LoadSparseWeightsFromConfig). The grammar is described in
`moses_integration.moses_ini`.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping
from itertools import compress

from moses_integration.ini_text import IniFeature, IniLine, IniText
from moses_integration.weight_lines import (
    format_weight,
    format_weight_line,
    is_sparse,
    read_sparse_weights,
)
from phrasescore.errors import ConfigError, shown_path
from phrasescore.io.output import open_output
from phrasescore.io.text import NUMBER, is_stream, same_file, shorten
from phrasescore.records import Weights

# The end of the name of a file of sparse weights beside a moses.ini; mert-moses.pl's have it, too.
_SPARSE_ENDING = ".sparse-weights"

_SECTIONS = ("weight-add", "weight")
_NUMBER = re.compile(NUMBER)
# Values that are true to Moses (moses/Util.cpp, Scan<bool>).
_TRUE = ("yes", "y", "true", "1")


class IniWeights(IniText):
    """A moses.ini whose weights are read and replaced."""

    def __init__(self, path: str, content: bytes) -> None:
        super().__init__(path, content)
        # New weights of sparse features whose names [weight] cannot hold.
        self._sparse: Weights = {}

    def tuneable_weights(self) -> dict[str, tuple[float, ...]]:
        """Return the weights of the scores that n-best lists show, by feature, in the file's order.

        Moses prints no feature with tuneable=false, nor any UnknownWordPenalty, and of a feature
        with tuneable-components= only those (moses/ScoreComponentCollection.cpp,
        OutputFeatureScores; moses/FF/UnknownWordPenaltyProducer.cpp). Sparse weights are kept,
        and those of the file that [weight-file] names come last.

        :raises ConfigError: with file and line, if a weight is no number, or if weights are
            overwritten elsewhere in the file; if there is no file of sparse weights.
        :raises DataError: as `read_sparse_weights`.
        """
        weights: Weights = {}
        for line in self.content_lines():
            if line.section == "weight-overwrite":
                problem = "expected no weights here; move them to [weight]"
                raise self.error(line, line.words[0].group(), problem)
        for line in self._weight_lines():
            first = line.words[0].group()
            name = first.removesuffix("=")
            values = [word.group() for word in line.words[1:]]
            if name == first or not values:
                raise self.error(line, first, "expected 'Name= value ...'")
            for value in values:
                if _NUMBER.fullmatch(value) is None or not math.isfinite(float(value)):
                    problem = f"expected a number as weight, found {shorten(value)}"
                    raise self.error(line, name, problem)
            weights[name] = tuple(map(float, values))  # the last line of a name counts
        for name, found in weights.items():
            weights[name] = tuple(compress(found, self.shown_components(name, len(found))))
        shown = {name: found for name, found in weights.items() if found}
        return {
            **shown,
            **{name: w for name, w in self._filed_weights().items() if name not in shown},
        }

    def _filed_weights(self) -> Weights:
        """Return the weights in the file that [weight-file] names; none if there is no such file.

        :raises ConfigError: if it cannot be opened.
        """
        named = self.weight_file()
        if named is None:
            return {}
        line, path = named
        if not os.path.exists(path):
            problem = (
                f"cannot open {path}: there is no such file (paths begin at the working folder)"
            )
            raise self.error(line, "", problem)
        return read_sparse_weights(path)

    def set_weights(self, weights: Mapping[str, tuple[float, ...]]) -> list[str]:
        """Replace weights of scores that n-best lists show; all others, and comments, stay.

        Weights of a sparse feature that has none yet are added to the section, at its end. Those
        of names that the section cannot hold go to a file, which `write` writes.

        :param weights: as `tuneable_weights` returns them, of some features.
        :return: names that the file has no feature for; their weights are left out.
        :raises ConfigError: if a feature has another number of weights here.
        """
        lines = self.latest_weight_lines()
        names = {feature.name for feature in self.features}
        ends = [line.place + 1 for line in self.content_lines() if line.section == "weight"]
        unknown, added = [], []
        for name, values in weights.items():
            line = lines.get(name)
            if line is not None:
                self._replace_weights(line, name, values)
            elif not is_sparse(name) or name.partition("_")[0] not in names or not ends:
                unknown.append(name)
            elif _fits_section(name):
                added.append(" ".join([f"{name}=", *map(format_weight, values)]))
            else:
                self._sparse[name] = values
        if ends:
            self.lines[ends[-1] : ends[-1]] = added
        self.features = self.read_features()
        return unknown

    def check_writable(self, path: str, names: Iterable[str]) -> None:
        """Check, before weights are computed, that `write` can write those of these features.

        :raises ConfigError: if a name needs a file beside the moses.ini, and that is a stream, or
            the file is the one that this moses.ini names.
        """
        name = next((name for name in names if is_sparse(name) and not _fits_section(name)), None)
        if name is None:
            return
        problem = f"[weight] cannot hold {shorten(name)}, whose weight goes to a file beside it"
        named = self.weight_file()
        if is_stream(path):
            raise ConfigError(shown_path(path), "[weight]", f"{problem}: name a file, no stream")
        if named is not None and same_file(named[1], f"{path}{_SPARSE_ENDING}"):
            cure = f"{named[1]}, which {self.path} names: write to another file"
            raise ConfigError(shown_path(path), "[weight]", f"{problem}: {cure}")

    def write(self, path: str) -> None:
        """Write the text to a file, whole or not at all; ``-`` is stdout.

        Weights of names that [weight] cannot hold go to a file beside it, with those of the old
        [weight-file], and [weight-file] names it.
        """
        if self._sparse:
            self.check_writable(path, self._sparse)
            weights = {**self._filed_weights(), **self._sparse}
            sparse_path = f"{os.path.abspath(path)}{_SPARSE_ENDING}"
            lines = [
                format_weight_line(sparse_path, name, name, format_weight(value))
                for name, (value,) in weights.items()
            ]
            self.set_weight_file(sparse_path)
            with open_output(sparse_path) as output:
                output.write("".join(f"{line}\n" for line in lines).encode())
        super().write(path)

    def weight_overwrite(self, weights: Mapping[str, tuple[float, ...]]) -> str:
        """Return weights for ``moses -weight-overwrite``; ``x`` stands for a weight of this file.

        That is for scores with tuneable-components=, which n-best lists do not show.
        """
        lines = self.latest_weight_lines()
        parts = []
        for name, values in weights.items():
            texts = [format_weight(value) for value in values]
            if name in lines and self._feature(name) is not None:
                shown = self.shown_components(name, len(lines[name].words) - 1)
                remaining = iter(texts)
                texts = [next(remaining, "x") if is_shown else "x" for is_shown in shown]
            parts.append(" ".join([f"{name}=", *texts]))
        return " ".join(parts)

    def latest_weight_lines(self) -> dict[str, IniLine]:
        """Return the line that counts for each name."""
        return {
            name.removesuffix("="): line
            for line in self._weight_lines()
            if (name := line.words[0].group()).endswith("=")
        }

    def _weight_lines(self) -> list[IniLine]:
        """Return the lines of weights in the order in which Moses takes them: the last one counts.

        Those of [weight-add] come first (moses/Parameter.cpp, CreateWeightsMap).
        """
        lines = [line for line in self.content_lines() if line.section in _SECTIONS]
        return sorted(lines, key=lambda line: _SECTIONS.index(line.section))

    def _replace_weights(self, line: IniLine, name: str, values: tuple[float, ...]) -> None:
        words = list(compress(line.words[1:], self.shown_components(name, len(line.words) - 1)))
        if len(words) != len(values):
            problem = f"expected {len(values)} weights, as there are values in the lists"
            raise self.error(line, name, f"{problem}, found {len(words)}")
        text = self.lines[line.place]
        for word, value in list(zip(words, values, strict=True))[::-1]:
            text = text[: word.start()] + format_weight(value) + text[word.end() :]
        self.lines[line.place] = text

    def shown_components(self, name: str, num_weights: int) -> tuple[bool, ...]:
        """Return for each score of a feature whether n-best lists show it.

        :param name: of a feature; a weight without one, such as a sparse feature's, is shown.
        :raises ConfigError: if tuneable-components= has another number of values.
        """
        feature = self._feature(name)
        if feature is None:
            return (True,) * num_weights
        tuneable = (dict(feature.arguments).get("tuneable") or "true").lower() in _TRUE
        if feature.kind == "UnknownWordPenalty" or not tuneable:
            return (False,) * num_weights
        components = self._tuneable_components(feature, num_weights)
        if components is None:
            return (True,) * num_weights
        return tuple(component.lower() in _TRUE for component in components.split(","))

    def _feature(self, name: str) -> IniFeature | None:
        return next((feature for feature in self.features if feature.name == name), None)

    def _tuneable_components(self, feature: IniFeature, num_features: int) -> str | None:
        """Return tuneable-components=, one truth value per score; None if it is not there."""
        value = dict(feature.arguments).get("tuneable-components")
        if value is None or len(value.split(",")) == num_features:
            return value
        problem = f"expected {num_features} values in tuneable-components=, found {shorten(value)}"
        raise self.error(feature.line, feature.name, problem)


def _fits_section(name: str) -> bool:
    """Return whether [weight] can hold a name: Moses finds comments and sections there."""
    return "#" not in name and not name.startswith("[")

"""The options of sentences, under weights that may change."""

from collections.abc import Sequence

from moses_integration.decoder.configuration import DecoderConfiguration
from moses_integration.decoder.options import OptionTable
from moses_integration.decoder.phrase_tables import read_tables
from moses_integration.decoder.sentence_tables import SentenceTables
from phrasescore.language_models.arpa import NgramModel


class PhraseOptions:
    """Makes the options of sentences, under weights that may change.

    :param aligned: whether the affiliations of the words are needed.
    :param sentences: the text, if it is known: its lines of the tables are read once, and new
        weights sort and prune them in memory. Otherwise lines are found as they are needed.
    """

    def __init__(
        self,
        configuration: DecoderConfiguration,
        model: NgramModel,
        *,
        aligned: bool,
        sentences: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self._model, self._aligned = model, aligned
        self._tables = None
        self.num_copied = 0  # words of a known text that are not in the table
        if sentences is not None:
            self._tables = tables = read_tables(configuration, sentences, aligned=aligned)
            unknown = {word.decode() for word in tables.pairs.sources[tables.num_known :]}
            self.num_copied = sum(word in unknown for words in sentences for word in words)

    def use(self, configuration: DecoderConfiguration, other_language_weight: float) -> None:
        """Use the weights of a configuration; see `OptionTable` for the other weight."""
        if self._tables is not None:
            self._table = OptionTable(
                configuration, self._model, self._tables, other_language_weight
            )
        else:
            self._stream = SentenceTables(
                configuration,
                self._model,
                aligned=self._aligned,
                other_language_weight=other_language_weight,
            )

    def of(self, sentence: Sequence[str]) -> OptionTable:
        """Return the options of a sentence, which must be one of a known text."""
        return self._table if self._tables is not None else self._stream.options(sentence)

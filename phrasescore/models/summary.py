"""Summary of a trained model: sizes, coverage, quality and fingerprints, as text or JSON."""

import dataclasses
import json
import os
from dataclasses import dataclass
from typing import Any

from phrasescore.arguments import StrPath
from phrasescore.io.text_table import text_table
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.vocabulary import Vocabulary


@dataclass(frozen=True)
class ModelReport:
    """A summary of a trained model and its training."""

    path: str
    checkpoint: Checkpoint

    def to_json(self) -> str:
        """Convert the report to a JSON object, indented."""
        model = self.checkpoint
        values: dict[str, Any] = {
            "model": self.path,
            "kind": model.config.kind,
            "phrasescore": model.library_version,
            "fingerprint": model.fingerprint,
            "parameters": model.num_parameters,
            "source_words": len(model.source_vocabulary) - len(model.source_vocabulary.SYMBOLS),
            "target_words": len(model.target_vocabulary) - len(model.target_vocabulary.SYMBOLS),
            "config": model.config.to_dict(),
            "training": dataclasses.asdict(model.record),
        }
        return json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False)

    def summary(self) -> str:
        """Format the rows about the network and its quality, without a newline at the end."""
        network, data, *_ = self._groups()
        quality = ("quality", self.checkpoint.record.summary())
        return "\n".join(text_table([*network, *data, quality], "l"))

    def to_text(self) -> str:
        """Format the report as text, without a newline at the end."""
        rows = [row for group in self._groups() for row in (*group, ("", ""))]
        return "\n".join(text_table(rows, "l", wrap=True)).rstrip()

    __repr__ = to_text

    def _groups(self) -> list[list[tuple[str, str]]]:
        model, record = self.checkpoint, self.checkpoint.record
        kind, *data = _data_rows(model)
        trained = (
            f"{record.updates:,} updates, {record.epochs:.2f} epochs, {record.minutes:.1f} minutes "
            f"on {record.device}, seed {record.seed}; {record.summary()}"
        )
        return [
            [
                ("model", self.path),
                kind,
                ("sizes", _settings(dataclasses.asdict(model.config.model))),
                ("parameters", f"{model.num_parameters:,}"),
            ],
            data,
            [
                *_fine_tuning_rows(model),
                ("trained", trained),
                ("settings", _settings(dataclasses.asdict(model.config.training))),
            ],
            [
                ("data", record.data_fingerprint),
                ("fingerprint", model.fingerprint),
                ("written by", f"phrasescore {model.library_version}"),
            ],
        ]


def _data_rows(model: Checkpoint) -> list[tuple[str, str]]:
    record, kind = model.record, model.config.kind
    left_out = f"{record.duplicates:,} duplicates, {record.too_long:,} too long"
    predicted = (model.target_vocabulary, record.target_coverage)
    if not model.config.network.reads_source:
        return [
            ("kind", f"{kind}, p(word | the words before it)"),
            ("predicts", _shortlist("a text", *predicted)),
            ("sentences", f"{record.training_pairs:,} for training ({left_out})"),
            ("held out", f"{record.validation_pairs:,} sentences for validation"),
        ]
    distinct = "" if model.config.network.is_feed_forward else "distinct "
    reads, predicts = ("target", "source") if model.reverse else ("source", "target")
    end = ", the last word first" if model.right_to_left else ""
    read = (model.source_vocabulary, record.source_coverage)
    return [
        ("kind", f"{kind}, p({predicts} | {reads}) (direction {record.direction})"),
        ("reads", _shortlist(f"the {reads} side", *read)),
        ("predicts", _shortlist(f"the {predicts} side{end}", *predicted)),
        ("pairs", f"{record.training_pairs:,} {distinct}for training ({left_out})"),
        ("held out", f"{record.validation_pairs:,} pairs for validation"),
    ]


def _fine_tuning_rows(model: Checkpoint) -> list[tuple[str, str]]:
    tuning = model.record.fine_tuning
    if tuning is None:
        return []
    lists = f"{tuning.lists:,} n-best lists ({tuning.held_out_lists:,} held out)"
    factors = f"scale {tuning.scale:.4g}, likelihood {tuning.likelihood:g}"
    return [
        ("trained on", f"for {tuning.objective} from {lists}, begun as {tuning.start_fingerprint}"),
        ("as feature", f"{tuning.feature} with the weight {tuning.weight:g}; {factors}"),
    ]


def model_report(path: StrPath) -> ModelReport:
    """Load a model folder and return the report on it."""
    return ModelReport(os.fspath(path), load_checkpoint(path))


def _settings(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _shortlist(side: str, vocabulary: Vocabulary, coverage: float) -> str:
    size = f"{len(vocabulary) - len(vocabulary.SYMBOLS):,}"
    words = f"{size} subwords" if vocabulary.is_subwords else f"shortlist of {size} words"
    return f"{side}: {words}, {coverage:.2%} of the training data's words"

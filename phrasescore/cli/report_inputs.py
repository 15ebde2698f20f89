"""What a report is made from: read and checked before anything is computed."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import click

from moses_integration.nbest import read_nbest, split_words
from phrasescore.cli.progress import show_progress
from phrasescore.cli.report_options import Settings
from phrasescore.cli.report_systems import Measured, System, measure
from phrasescore.cli.report_table import TableData, read_table
from phrasescore.config.toml_file import read_toml
from phrasescore.devices import choose_device
from phrasescore.errors import DataError, ModelError, PhrasescoreError
from phrasescore.evaluation.sentences import Sentences, check_aligned, read_sentences
from phrasescore.io.text import decode, is_stream, read_lines
from phrasescore.models.checkpoint import Checkpoint, load_checkpoint
from phrasescore.progress import Meter
from phrasescore.workflows.text_checks import warn_of_texts


class Model(NamedTuple):
    """A trained model, with the name that the report has for it."""

    name: str
    checkpoint: Checkpoint

    @property
    def kind(self) -> str:
        """The kind of network."""
        return self.checkpoint.config.kind


class Given(NamedTuple):
    """What a file holds, with its path for messages."""

    path: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Inputs:
    """All that was given."""

    table: str | None
    systems: list[System]
    source: Sentences | None
    references: list[Sentences]
    models: list[Model]
    tuning: Given | None
    experiment: Given | None
    settings: Settings

    def of_kind(self, *kinds: str) -> list[Model]:
        """Return the models of some kinds, in their order."""
        return [model for model in self.models if model.kind in kinds]

    @cached_property
    def table_data(self) -> TableData:
        """What is chosen of the table; it is read when that is asked for, and once."""
        assert self.table is not None
        models = self.of_kind("encoder-decoder")
        checkpoints = [(model.name, model.checkpoint) for model in models]
        return read_table(self.table, checkpoints, self.settings)

    @cached_property
    def measured(self) -> Measured:
        """How good the systems are."""
        return measure(self.systems, self.references, self.settings.seed)


def read_inputs(
    inputs: Sequence[str],
    models: Sequence[str],
    source: str | None,
    references: Sequence[str],
    translations: Sequence[tuple[str, str]],
    *,
    tuning_report: str | None,
    experiment: str | None,
    settings: Settings,
) -> Inputs:
    """Return what was given, when all of it is there and goes together.

    :param inputs: a phrase table, and n-best lists.
    :raises click.UsageError: if there are two tables, or two systems of one name.
    :raises PhrasescoreError: if something is not what it should be.
    """
    for name in (*inputs, source, *references, *(path for _, path in translations)):
        if name is not None and is_stream(name):
            raise click.UsageError(f"a report is made from files: {name!r} is not one")
    choose_device(settings.device)
    lists = [path for path in inputs if _is_nbest(path)]
    tables = [path for path in inputs if path not in lists]
    if len(tables) > 1:
        raise click.UsageError(f"expected one phrase table, got {' and '.join(tables)}")
    names = [*map(os.path.basename, lists), *(name for name, _ in translations)]
    if len(set(names)) < len(names):
        raise click.UsageError(f"two systems have one name: {', '.join(names)}")
    given_tuning = None if tuning_report is None else _read_json(tuning_report)
    given_experiment = None
    if experiment is not None:
        path = str(Path(experiment) / "table.toml")
        given_experiment = Given(path, read_toml(path))
    checkpoints = [load_checkpoint(path) for path in models]
    texts = [read_sentences(path) for path in references]
    sources = None if source is None else read_sentences(source)
    systems = [read_sentences(path) for _, path in translations]
    aligned = [*texts, *systems, *([] if sources is None else [sources])]
    if aligned:
        check_aligned(aligned)
    systems = [*map(_first_best, lists), *systems]
    if lists:
        check_aligned([*aligned, *systems])
    if texts:
        warn_of_texts(systems, texts)
    return Inputs(
        table=tables[0] if tables else None,
        systems=[System(*both) for both in zip(names, systems, strict=True)],
        source=sources,
        references=texts,
        models=[
            Model(name, checkpoint)
            for name, checkpoint in zip(_short_names(models), checkpoints, strict=True)
        ],
        tuning=given_tuning,
        experiment=given_experiment,
        settings=settings,
    )


def _short_names(paths: Sequence[str]) -> list[str]:
    """Return the last parts of paths, or the paths as they are where these are not enough."""
    names = [os.path.basename(os.path.abspath(path)) for path in paths]
    if len(set(names)) == len(names):
        return names
    if len(set(paths)) < len(paths):
        raise click.UsageError("a --model is given twice")
    return list(paths)


def _is_nbest(path: str) -> bool:
    """Return whether a file begins as an n-best list does, and as no phrase table can.

    A source phrase may be a number; scores have no names.

    :raises DataError: if the file cannot be read, or is empty.
    """
    first = next(read_lines(path), None)
    if first is None:
        raise DataError(path, None, "expected a phrase table or an n-best list, found no lines")
    fields = first.split(b"|||")
    if len(fields) < 3:
        expected = "expected a line of a phrase table or of an n-best list"
        raise DataError(path, 1, f"{expected}, found no two '|||' in it")
    is_number = fields[0].strip().isdigit()
    return is_number and any(token.endswith(b"=") for token in fields[2].split())


def _first_best(path: str) -> Sentences:
    """Return the first hypothesis of each list.

    :raises DataError: if a sentence has no list.
    """
    sentences = Sentences(path, [], [])
    with Meter("n-best lists", "hypotheses", show_progress) as progress:
        for expected, found in enumerate(read_nbest(path)):
            if found.id != expected:
                problem = f"expected id {expected}, found {found.id}: a sentence has no hypotheses"
                raise DataError(path, found.first_line, problem)
            words = split_words(decode(path, found.first_line, found.hypotheses[0]))
            sentences.texts.append(" ".join(words))
            sentences.words.append(words)
            progress.update(len(found.raws))
    return sentences


def _read_json(path: str) -> Given:
    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not a number")

    try:
        with open(path, encoding="utf-8") as file:
            values = json.load(file, parse_constant=refuse)
    except OSError as error:
        raise DataError(path, None, f"cannot open: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        problem = f"expected what tune --report wrote with --format json: {error}"
        raise DataError(path, None, problem) from error
    if not isinstance(values, dict) or "features" not in values:
        raise DataError(path, None, "expected a report of tune, found other JSON")
    return Given(path, values)


def wrong_kind(section: str, kinds: Sequence[str], models: Sequence[Model]) -> PhrasescoreError:
    """Return that a section needs another kind of model than there is."""
    found = ", ".join(f"{model.name} ({model.kind})" for model in models) or "none"
    wanted = " or ".join(kinds)
    return ModelError(f"{section}: expected a --model of the kind {wanted}, found {found}")

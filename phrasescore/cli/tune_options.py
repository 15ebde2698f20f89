"""What ``phrasescore tune`` is asked for, and what of it goes together."""

from dataclasses import dataclass
from typing import Literal

import click

from phrasescore.cli.options import column_spec
from phrasescore.features.column_spec import ColumnSpec, check_columns

# Those of tuning.methods, which imports what --help need not wait for.
METHODS = ("mert", "mira", "pro", "xbleu")
# Of these, the ones that find the same weights with every seed.
NOT_RANDOM = ("xbleu",)
METRICS = ("bleu", "chrf")
REFERENCE_LENGTHS = ("closest", "shortest", "average")


@dataclass(frozen=True)
class TuneOptions:
    """What the user asked for, by the names of the parameters."""

    nbest: tuple[str, ...]
    references: tuple[str, ...]
    features: tuple[str, ...]
    scores: tuple[str, ...]
    weights: str | None
    ifile: str | None
    moses_ini: str | None
    moses_ini_out: str | None
    features_out: str | None
    scores_out: str | None
    ifile_out: str | None
    method: str
    metrics: dict[str, float]
    reference_length: Literal["closest", "shortest", "average"]
    starts: int
    plateau_smoothing: int
    replicas: int
    cross_validate: int | None
    fixed: tuple[str, ...]
    decoder: str | None
    decoder_flags: str
    source: str | None
    working_dir: str
    iterations: int
    nbest_size: int
    patience: int
    translations: str | None
    rescore: tuple[str, ...]
    rescore_lms: tuple[str, ...]
    rescore_lexicons: tuple[str, ...]
    rescore_reverse_lexicons: tuple[str, ...]
    rescore_features: tuple[str, ...]
    backoff_lm: str | None
    unnormalized: bool
    resume: bool
    report: str | None
    output: str
    report_format: str
    seed: int
    device: str
    threads: int | None

    def columns(self) -> list[ColumnSpec]:
        """Return the features that lists get in each round, in their order."""
        given = {
            "models": self.rescore,
            "language_models": self.rescore_lms,
            "lexicons": self.rescore_lexicons,
            "reverse_lexicons": self.rescore_reverse_lexicons,
            "features": self.rescore_features,
        }
        return [column_spec(option, value) for option, values in given.items() for value in values]

    @property
    def only_merges(self) -> bool:
        """Whether weights that are there are put into a moses.ini, and nothing is tuned."""
        sources = (self.nbest, self.features, self.scores, self.references, self.decoder)
        return all((self.weights, self.moses_ini, self.moses_ini_out)) and not any(sources)

    def outputs(self) -> list[str]:
        """Return the files to write."""
        written = (self.output, self.moses_ini_out, self.report, self.features_out)
        more = (self.scores_out, self.ifile_out, self.translations)
        return [name for name in (*written, *more) if name is not None]

    def check(self) -> None:
        """Refuse what does not go together.

        :raises click.UsageError: at that.
        :raises PhrasescoreError: if a file would overwrite another.
        """
        if self.only_merges:
            self._check_merge()
            return
        given = [bool(self.nbest), bool(self.features or self.scores), self.decoder is not None]
        if sum(given) != 1:
            raise click.UsageError("give one of NBEST, --features with --scores, and --decoder")
        if len(self.features) != len(self.scores):
            raise click.UsageError("--features and --scores come in pairs")
        if self.features:
            self._check_extracted()
        elif not self.references:
            raise click.UsageError("--references is needed")
        if self.decoder is not None:
            self._check_loop()
        elif any((self.source, self.columns(), self.resume, self.decoder_flags, self.translations)):
            names = "--source, --rescore, --resume, --decoder-flags, --translations"
            raise click.UsageError(f"{names}: with --decoder")
        elif not (self.weights or self.ifile or self.moses_ini):
            problem = "give the weights that the lists were made with, to start from"
            raise click.UsageError(f"{problem}: --weights FILE, or --config moses.ini")
        if self.ifile and (self.weights or not self.features):
            raise click.UsageError("--ifile goes with --features, in place of --weights")
        if (self.backoff_lm is not None or self.unnormalized) and not self.rescore:
            raise click.UsageError("--backoff-lm and --unnormalized go with --rescore")
        if self.moses_ini_out is not None and self.moses_ini is None and self.decoder is None:
            raise click.UsageError("--moses-ini-out needs the --moses-ini to change")
        if (self.features_out is None) != (self.scores_out is None):
            raise click.UsageError("--features-out and --scores-out come in pairs")
        if self.features_out is not None and (self.decoder or set(self.metrics) != {"bleu"}):
            raise click.UsageError("--features-out goes with NBEST and --metric bleu")
        if self.ifile_out is not None and self.decoder is not None:
            raise click.UsageError("--ifile-out goes with NBEST or --features")
        self._check_files()

    def _check_merge(self) -> None:
        names = [
            *(self.source, self.columns(), self.resume, self.report, self.ifile, self.ifile_out),
            *(self.features_out, self.scores_out, self.translations, self.cross_validate),
            *(self.replicas > 1, self.fixed, self.decoder_flags, self.output != "-"),
        ]
        if any(names):
            raise click.UsageError(
                "give one of NBEST, --features with --scores, and --decoder; without them, "
                "--weights, --moses-ini and --moses-ini-out alone put weights into a moses.ini"
            )
        self._check_files()

    def _check_extracted(self) -> None:
        if self.references:
            raise click.UsageError(
                "--references goes with NBEST: --scores has what is made of them"
            )
        if set(self.metrics) != {"bleu"} or self.reference_length != "closest":
            problem = "--metric and --reference-length go with NBEST"
            raise click.UsageError(f"{problem}: the statistics in --scores are made already")

    def _check_loop(self) -> None:
        from phrasescore.io.text import is_stream

        if self.source is None:
            raise click.UsageError("--decoder needs --source, the text to translate")
        if self.columns():
            check_columns(self.columns(), of_phrases=False)
        if self.replicas > 1 or self.cross_validate is not None:
            raise click.UsageError("--replicas and --cross-validate go with NBEST")
        read = [name for name in (self.source, self.moses_ini, *self.references) if name]
        if any(map(is_stream, read)):
            problem = "--source, --references and --moses-ini cannot be streams with --decoder"
            raise click.UsageError(f"{problem}: they are read more than once")
        if not self.working_dir:
            raise click.UsageError("--working-dir: expected the name of a folder, found ''")

    def _check_files(self) -> None:
        from phrasescore.io.file_names import check_files
        from phrasescore.io.output import check_output

        inputs = [*self.nbest, *self.references, *self.features, *self.scores]
        inputs += [
            name
            for name in (self.weights, self.ifile, self.moses_ini, self.source)
            if name is not None
        ]
        for name in self.outputs():
            check_output(name)
        check_files(inputs, self.outputs())

"""Settings for a training run, read from TOML into frozen dataclasses.

A file has a table per dataclass (``[model]``, ``[vocabulary]``, ``[training]``) and the key
``kind`` above them; a missing setting keeps its default. Environment variables and files in the
user's home are not read. Only `layer_settings` combines settings: a preset or a file, then
``table.key=value``.
"""

import dataclasses
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from phrasescore.arguments import Amount, Count, Positive, StrPath
from phrasescore.errors import ArgumentError, ConfigError
from phrasescore.settings import old_names
from phrasescore.settings.kinds import KINDS, EncoderDecoderConfig, NetworkKind, ShortlistSize, Size
from phrasescore.settings.toml_file import TomlTable, read_toml, read_value, to_toml, unknown

_PRESETS = Path(__file__).parent / "presets"

# The settings that may differ when a run is resumed: its length and how often it saves. (With
# schedule = "linear" the limits also set the learning rate, and so the weights.)
RESUMABLE = frozenset(
    {"updates", "epochs", "minutes", "patience", "checkpoint_minutes", "checkpoint_updates"}
)

OptimizerName = Literal["adadelta", "adam", "sgd"]
TrainingPrecision = Literal["float32", "tf32", "bfloat16", "auto"]


@dataclass(frozen=True, slots=True)
class VocabularyConfig:
    """Shortlist sizes in words, without ``</s>`` and ``<unk>``, or the number of subwords."""

    # Size for the side that the network reads; with --reverse that is the table's target side.
    source_size: ShortlistSize = 15000
    # Size for the side that the network predicts, the only side of a language model.
    target_size: ShortlistSize = 15000
    # Number of subwords per side, used instead of shortlists of words; 0: words. 1: characters.
    subwords: Annotated[int, Meta(ge=0, le=1 << 20)] = 0


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """Settings for training a network."""

    # Pairs per update.
    batch_size: Annotated[int, Meta(ge=1, le=1 << 20)] = 64
    # Average number of predicted words per update, in place of the number of pairs; sorted batches
    # then have about as many words each. 0: batch_size pairs.
    batch_words: Count = 0
    # Batches that are drawn together and sorted by length, which saves steps. 1: no sorting.
    window_batches: Annotated[int, Meta(ge=1, le=1 << 16)] = 1
    # Pairs with more words or pieces on one side are excluded from training, and counted.
    max_length: Annotated[int, Meta(ge=1, le=65535)] = 100
    # The loss of a batch: the sum or the mean of -log p over its pairs, or over its predicted words
    # with batch_words.
    loss: Literal["sum", "mean"] = "sum"
    # Whether an update's softmax is over the shortlist, or over each word and a sample of the
    # shortlist (Jean et al., 2015), which is faster. Validation is always over the shortlist, and
    # so are updates if the shortlist has no more than sampled_words.
    softmax: Literal["full", "sampled"] = "full"
    sampled_words: Size = 1000
    # Probability of skipping each merge of a word's pieces, so that the word has other pieces in
    # every epoch (Provilkov et al., 2020); 0: always the same pieces. Only with subwords.
    subword_dropout: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    # Share of the target distribution that is uniform over the shortlist (Szegedy et al., 2016).
    label_smoothing: Annotated[float, Meta(ge=0.0, le=0.9)] = 0.0
    optimizer: OptimizerName = "adadelta"
    # Factor of every step; 1 in Adadelta's paper.
    learning_rate: Positive = 1.0
    # linear: falls to 0 at the first of the limits below. inverse-sqrt: falls as the square root of
    # the number of updates after the warm-up (Vaswani et al., 2017). halving: constant, then halved
    # at epoch halving_start and after every further halving_epochs.
    schedule: Literal["constant", "linear", "inverse-sqrt", "halving"] = "constant"
    # Updates in which the rate first rises from 0, in every schedule.
    warmup_updates: Count = 0
    halving_start: Amount = 5.0
    halving_epochs: Positive = 0.5
    # Adadelta: decay of the running averages.
    rho: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.95
    # 1e-6 is usual for Adadelta, 1e-8 for Adam.
    epsilon: Positive = 1e-6
    # Adam: decays of the running averages.
    beta1: Annotated[float, Meta(ge=0.0, le=0.9999)] = 0.9
    beta2: Annotated[float, Meta(ge=0.0, le=0.999999)] = 0.999
    # Maximum Euclidean norm of the loss's gradient, which is scaled down if larger; 0: no limit.
    clip_norm: Amount = 1.0
    # Precision of matrix products; weights are always float32. tf32 is for CUDA. bfloat16 rounds
    # the factors on a CPU and is autocast on CUDA. auto: bfloat16 for an rnnsearch on a CPU with
    # AMX, otherwise float32.
    precision: TrainingPrecision = "float32"
    # Number of held-out pairs, limited to a share of all pairs; 0: no validation.
    validation_pairs: Count = 5000
    validation_share: Annotated[float, Meta(ge=0.0, le=0.5)] = 0.02
    # Updates between validations; 0: one at the end of each epoch.
    validation_updates: Count = 1000
    # Number of most recent validations whose weights are averaged. The average is validated and
    # saved.
    average_checkpoints: Annotated[int, Meta(ge=1, le=100)] = 1
    # Training stops after this number of validations without a better perplexity; 0: never.
    patience: Count = 0
    # Training ends at the first of these limits; 0: no limit.
    updates: Count = 0
    epochs: Amount = 0.0
    minutes: Amount = 0.0
    # A checkpoint is saved after the first of these; 0: only at the end.
    checkpoint_minutes: Amount = 10.0
    checkpoint_updates: Count = 0
    # Seed for the initial weights, the held-out part and the order of the pairs.
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 1


# Default settings for learning from n-best lists: a pair is a list.
FINE_TUNING = TrainingConfig(
    batch_size=16,
    loss="mean",
    optimizer="adam",
    learning_rate=1e-3,
    schedule="linear",
    epsilon=1e-8,
    validation_pairs=1000,
    validation_share=0.1,
    validation_updates=100,
    updates=1500,
)


@dataclass(frozen=True, slots=True)
class Config:
    """All settings for a training run.

    >>> Config().override(["training.batch_size=32"]).training.batch_size
    32
    """

    kind: str = "encoder-decoder"
    # The sizes of the network, a dataclass that depends on the kind.
    model: Any = field(default_factory=EncoderDecoderConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @property
    def network(self) -> NetworkKind:
        """The kind of network that the settings are for."""
        return KINDS[self.kind]

    @classmethod
    def from_toml(cls, path: StrPath) -> "Config":
        """Read the settings from a TOML file."""
        path = os.fspath(path)
        return cls.from_dict(read_toml(path), path)

    @classmethod
    def of_model(cls, folder: StrPath) -> "Config":
        """Read the settings of a trained model, also of one that version 0.3 wrote."""
        path = os.path.join(folder, "config.toml")
        values = read_toml(path)
        kind = values.get("kind")
        if isinstance(kind, str) and kind not in KINDS:
            values["kind"] = old_names.KINDS.get(kind, kind)
        return cls.from_dict(values, path)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], path: str) -> "Config":
        """Create settings from parsed TOML tables; missing settings keep their defaults.

        :raises ConfigError: at the first key that is unknown, of a wrong type or out of range.
        """
        kind = values.get("kind", "encoder-decoder")
        network = KINDS.get(kind) if isinstance(kind, str) else None
        if network is None:
            problem = unknown("kind of network", str(kind), KINDS, old_names.KINDS)
            raise ConfigError(path, "kind", problem)
        tables: dict[str, type[Any]] = {
            "model": network.config,
            "vocabulary": VocabularyConfig,
            "training": TrainingConfig,
        }
        for key in values:
            if key != "kind" and key not in tables:
                raise ConfigError(path, None, unknown(f"table [{key}]", key, tables))
        whole = TomlTable(path, "", values)
        configs = {name: whole.table(name).read(table) for name, table in tables.items()}
        return cls(kind, **configs)

    @classmethod
    def preset(cls, name: str) -> "Config":
        """Return the settings of a preset."""
        names = preset_names()
        if name not in names:
            problem = unknown("preset", name, names, old_names.PRESETS)
            raise ConfigError(f"preset {name}", None, problem)
        text = (_PRESETS / f"{name}.toml").read_text("utf-8")
        return cls.from_dict(tomllib.loads(text), f"preset {name}")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as tables, which :meth:`from_dict` reads."""
        return dataclasses.asdict(self)

    def to_toml(self) -> str:
        """Return all settings as the text of a TOML file, which :meth:`from_toml` reads."""
        lines = []
        for key, value in self.to_dict().items():
            if isinstance(value, dict):
                lines += ["", f"[{key}]"]
                lines += [f"{name} = {to_toml(item)}" for name, item in value.items()]
            else:
                lines.append(f"{key} = {to_toml(value)}")
        return "\n".join(lines) + "\n"

    def override(self, assignments: Iterable[str], path: str = "--set") -> "Config":
        """Return a copy with ``table.key=value`` assignments applied; later ones win."""
        values = TomlTable(path, "", self.to_dict())
        for assignment in assignments:
            key, equals, text = assignment.partition("=")
            if not equals or "." not in key:
                problem = "expected table.key=value, such as training.batch_size=32"
                raise ConfigError(path, None, f"{problem}; got {assignment!r}")
            values = values.changed({key.strip(): read_value(text.strip())})
        return Config.from_dict(values.values(), path)


def preset_names(kind: NetworkKind | None = None) -> list[str]:
    """Return the sorted names of a kind's presets, or of all presets."""
    names = sorted(path.stem for path in _PRESETS.glob("*.toml"))
    return [name for name in names if kind is None or Config.preset(name).kind == kind.name]


def layer_settings(
    kind: NetworkKind,
    preset: str | None,
    config_file: str | None,
    assignments: Iterable[str],
    stored: Config | None = None,
) -> Config:
    """Return the settings for a run: a preset or a file, then assignments.

    :param assignments: ``table.key=value``, as for `Config.override`.
    :param stored: settings of the run to resume, used if neither a preset nor a file is given.
    """
    if preset is not None and config_file is not None:
        raise ArgumentError("--preset and --config cannot be combined")
    if config_file is not None:
        config, origin = Config.from_toml(config_file), f"--config {config_file}"
    elif preset is None and stored is not None:
        config, origin = stored, "--resume"
    else:
        preset = preset or kind.default_preset
        config, origin = Config.preset(preset), f"--preset {preset}"
    if config.kind != kind.name:
        known = f"; presets of {kind.name}: {', '.join(preset_names(kind))}" if preset else ""
        raise ConfigError(
            origin, "kind", f"the settings are for {config.kind!r}, not {kind.name!r}{known}"
        )
    return config.override(assignments)


def fine_tuning_settings(
    start: Config, assignments: Iterable[str], stored: Config | None = None
) -> Config:
    """Return the settings for fine-tuning a network on n-best lists."""
    config = stored or dataclasses.replace(start, training=FINE_TUNING)
    config = config.override(assignments)
    for name in ("model", "vocabulary"):
        if getattr(config, name) != getattr(start, name):
            raise ConfigError(
                "--set", f"[{name}]", "a trained network keeps its sizes; change only [training]"
            )
    unused = "softmax subword_dropout label_smoothing batch_words average_checkpoints"
    for name in unused.split():
        if getattr(config.training, name) != getattr(FINE_TUNING, name):
            raise ConfigError("--set", f"[training] {name}", "cannot be used with n-best lists")
    return config


def check_resumable(old: Config, new: Config) -> None:
    """Check that a run with the settings ``old`` can be resumed with ``new``.

    :raises ConfigError: at the first setting that differs and changes the weights.
    """
    if old.kind != new.kind:
        raise ConfigError("--resume", "kind", f"the run to resume has the kind {old.kind!r}")
    before, after = old.to_dict(), new.to_dict()
    for table in ("model", "vocabulary", "training"):
        for key, value in before[table].items():
            if after[table][key] != value and not (table == "training" and key in RESUMABLE):
                raise ConfigError(
                    "--resume",
                    f"[{table}] {key}",
                    f"the run to resume has {value!r}, got {after[table][key]!r}; resume it with "
                    "its original settings, or train into another folder",
                )

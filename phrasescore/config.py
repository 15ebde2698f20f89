"""Settings of a training run: TOML <-> frozen dataclasses, checked on the way in.

A file has a table for each dataclass (``[model]``, ``[vocabulary]``, ``[training]``) and the key
``kind`` above them; what it leaves out keeps its default. Nothing else is read: no environment,
no file of the user's home. Settings are layered in one place only, by the command line: a preset
or a file, and then ``--set table.key=value``.
"""

import dataclasses
import difflib
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any

from phrasescore.errors import ConfigError

# Of a layer: far beyond what fits into any memory, so that a slip of the finger is found at once.
_MAX_SIZE = 1 << 16
# Of a shortlist: ids are stored in 32 bits.
_MAX_WORDS = 1 << 30


def _setting(
    default: float | str,
    *,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    above: float = -math.inf,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting with its range: ``minimum <= value <= maximum``, ``above < value``."""
    limits = {"minimum": minimum, "maximum": maximum, "above": above, "choices": choices}
    return field(default=default, metadata=limits)


@dataclass(frozen=True, slots=True)
class EncoderDecoderConfig:
    """Sizes of the RNN Encoder-Decoder; the defaults are those of Cho et al. (2014), 4.1.1."""

    # Units of the gated layers, the same in encoder and decoder.
    hidden_size: int = _setting(1000, minimum=1, maximum=_MAX_SIZE)
    # Rank of the matrices between words and layers: the size of a word's embedding.
    embedding_size: int = _setting(100, minimum=1, maximum=_MAX_SIZE)
    # Maxout units, each the larger of two.
    maxout_size: int = _setting(500, minimum=1, maximum=_MAX_SIZE)
    # Rank of the output matrix G = G_l G_r.
    output_rank: int = _setting(100, minimum=1, maximum=_MAX_SIZE)
    # Standard deviation of the Gaussian that the weights start from, recurrent ones apart.
    init_std: float = _setting(0.01, above=0.0)


@dataclass(frozen=True, slots=True)
class VocabularyConfig:
    """Sizes of the shortlists, in words, ``</s>`` and ``<unk>`` not counted."""

    # Of the side that the network reads; with --reverse that is the target side of the table.
    source_size: int = _setting(15000, minimum=1, maximum=_MAX_WORDS)
    # Of the side that the network predicts.
    target_size: int = _setting(15000, minimum=1, maximum=_MAX_WORDS)


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """How a network is trained."""

    # Pairs of an update.
    batch_size: int = _setting(64, minimum=1, maximum=1 << 20)
    # Batches that are drawn together and cut by length: less padding, fewer steps. 1: not so.
    window_batches: int = _setting(1, minimum=1, maximum=1 << 16)
    # Pairs with more words than this on a side are left out of training, and counted.
    max_length: int = _setting(100, minimum=1, maximum=65535)
    # The loss of a batch: -log p summed over its pairs, or that divided by their number.
    loss: str = _setting("sum", choices=("sum", "mean"))
    optimizer: str = _setting("adadelta", choices=("adadelta", "adam"))
    # Factor of every step; Adadelta's is 1 in the paper that introduced it.
    learning_rate: float = _setting(1.0, above=0.0)
    # linear: falls to 0 at the nearest of the limits below.
    schedule: str = _setting("constant", choices=("constant", "linear"))
    # Adadelta: decay of the running averages.
    rho: float = _setting(0.95, minimum=0.0, maximum=1.0)
    # Adadelta: 1e-6; Adam: 1e-8 is usual.
    epsilon: float = _setting(1e-6, above=0.0)
    # Adam: decays of the running averages.
    beta1: float = _setting(0.9, minimum=0.0, maximum=0.9999)
    beta2: float = _setting(0.999, minimum=0.0, maximum=0.999999)
    # The gradient of the loss is scaled down to this Euclidean norm; 0: never.
    clip_norm: float = _setting(1.0, minimum=0.0)
    # Of matrix products; weights are float32 always. tf32 is for CUDA devices. bfloat16 rounds the
    # factors on a CPU and is autocast on CUDA.
    precision: str = _setting("float32", choices=("float32", "tf32", "bfloat16"))
    # Pairs held out for validation, but never more than this share of all; 0: no validation.
    validation_pairs: int = _setting(5000, minimum=0)
    validation_share: float = _setting(0.02, minimum=0.0, maximum=0.5)
    # Updates between validations.
    validation_updates: int = _setting(1000, minimum=1)
    # Validations without a better perplexity before training stops; 0: never.
    patience: int = _setting(0, minimum=0)
    # Limits, whichever comes first; 0: none.
    updates: int = _setting(0, minimum=0)
    epochs: float = _setting(0.0, minimum=0.0)
    minutes: float = _setting(0.0, minimum=0.0)
    # Between checkpoints, whichever comes first; 0: none but the one at the end.
    checkpoint_minutes: float = _setting(10.0, minimum=0.0)
    checkpoint_updates: int = _setting(0, minimum=0)
    # Of the start weights, the held-out part and the order of the pairs.
    seed: int = _setting(1, minimum=0, maximum=2**63 - 1)


# The kinds of networks, by the dataclass of their sizes.
MODEL_CONFIGS: dict[str, type[EncoderDecoderConfig]] = {"encoder-decoder": EncoderDecoderConfig}

# What may differ when a run is resumed: how long it goes on and how often it saves. (With
# schedule = "linear" the limits set the learning rate, and so the weights, all the same.)
RESUMABLE = frozenset(
    {"updates", "epochs", "minutes", "patience", "checkpoint_minutes", "checkpoint_updates"}
)


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that is set before training starts.

    >>> Config().override(["training.batch_size=32"]).training.batch_size
    32
    """

    kind: str = "encoder-decoder"
    model: EncoderDecoderConfig = EncoderDecoderConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    training: TrainingConfig = TrainingConfig()

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> "Config":
        """Read a TOML file.

        :raises ConfigError: if it cannot be read, or holds what :meth:`from_dict` refuses.
        """
        path = os.fspath(path)
        try:
            with open(path, "rb") as file:
                values = tomllib.load(file)
        except OSError as error:
            raise ConfigError(path, None, f"cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(path, None, f"expected TOML: {error}") from error
        return cls.from_dict(values, path)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], path: str) -> "Config":
        """Check tables of settings, as TOML gives them; what is left out keeps its default.

        :param path: where they come from, for messages.
        :raises ConfigError: on the first key that is unknown, of a wrong type or out of range.
        """
        tables = _tables(values.get("kind", "encoder-decoder"), path)
        for key in values:
            if key != "kind" and key not in tables:
                raise ConfigError(path, None, _unknown(f"table [{key}]", key, tables))
        made = {}
        for name, table in tables.items():
            given = values.get(name, {})
            if not isinstance(given, Mapping):
                raise ConfigError(path, name, f"expected a table [{name}], got {given!r}")
            made[name] = _make(table, name, given, path)
        return cls(kind=values.get("kind", "encoder-decoder"), **made)

    @classmethod
    def preset(cls, name: str) -> "Config":
        """Return a preset of this package; see :func:`preset_names`."""
        if name not in preset_names():
            raise ConfigError(f"preset {name}", None, _unknown("preset", name, preset_names()))
        text = (resources.files("phrasescore") / "presets" / f"{name}.toml").read_text("utf-8")
        return cls.from_dict(tomllib.loads(text), f"preset {name}")

    def to_dict(self) -> dict[str, Any]:
        """Return the tables that :meth:`from_dict` takes."""
        return dataclasses.asdict(self)

    def to_toml(self) -> str:
        """Return the text of a file that :meth:`from_toml` reads as this, every setting written."""
        lines = []
        for key, value in self.to_dict().items():
            if isinstance(value, dict):
                lines += ["", f"[{key}]"]
                lines += [f"{name} = {_toml(item)}" for name, item in value.items()]
            else:
                lines.append(f"{key} = {_toml(value)}")
        return "\n".join(lines) + "\n"

    def override(self, assignments: Iterable[str], path: str = "--set") -> "Config":
        """Return these settings with others for ``table.key=value``, the later ones winning.

        :raises ConfigError: on an assignment without that form, or that :meth:`from_dict` refuses.
        """
        values = self.to_dict()
        for assignment in assignments:
            key, equals, text = assignment.partition("=")
            table, dot, name = key.strip().partition(".")
            if not equals or not dot or not name:
                raise ConfigError(path, None, f"expected table.key=value, got {assignment!r}")
            if not isinstance(values.get(table), dict):
                names = [known for known, value in values.items() if isinstance(value, dict)]
                raise ConfigError(path, None, _unknown(f"table [{table}]", table, names))
            values[table][name] = _read_value(values[table].get(name), text.strip())
        return Config.from_dict(values, path)


def preset_names() -> list[str]:
    """Return the names of the presets, sorted."""
    folder = resources.files("phrasescore") / "presets"
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def check_resumable(old: Config, new: Config) -> None:
    """Check that a run with settings ``old`` can go on with ``new``.

    :raises ConfigError: on the first setting that differs and changes the weights.
    """
    before, after = old.to_dict(), new.to_dict()
    for table in ("kind", "model", "vocabulary", "training"):
        if isinstance(before[table], str):
            if before[table] != after[table]:
                raise ConfigError("--resume", table, f"the run has {before[table]!r}")
            continue
        for key, value in before[table].items():
            if table == "training" and key in RESUMABLE:
                continue
            if after[table].get(key) != value:
                raise ConfigError(
                    "--resume",
                    f"[{table}] {key}",
                    f"the run to resume has {value!r}, got {after[table].get(key)!r}; resume it "
                    "with its own settings, or train into another folder",
                )


def _tables(kind: Any, path: str) -> dict[str, type[Any]]:
    if not isinstance(kind, str) or kind not in MODEL_CONFIGS:
        raise ConfigError(path, "kind", _unknown("kind of network", str(kind), MODEL_CONFIGS))
    return {
        "model": MODEL_CONFIGS[kind],
        "vocabulary": VocabularyConfig,
        "training": TrainingConfig,
    }


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"expected one of: {', '.join(names)}"
    return f"unknown {what}; {hint}"


def _make(table: type[Any], name: str, given: Mapping[str, Any], path: str) -> Any:
    """Return the dataclass ``table`` with ``given`` checked against its fields."""
    known = {setting.name: setting for setting in fields(table)}
    values = {}
    for key, value in given.items():
        if key not in known:
            raise ConfigError(path, None, _unknown(f"key '{key}' in [{name}]", key, known))
        values[key] = _checked(known[key], value, f"[{name}] {key}", path)
    return table(**values)


def _checked(setting: "dataclasses.Field[Any]", value: Any, key: str, path: str) -> Any:
    kind: Any = setting.type
    if kind is float and type(value) is int:
        # Digits enough make a whole number that is larger than any float.
        value = float(value) if abs(value) < 1 << 1000 else math.inf
    if type(value) is not kind:
        names = {int: "a whole number", float: "a number", str: "a string"}
        raise ConfigError(path, key, f"expected {names[kind]}, got {value!r}")
    limits = setting.metadata
    if kind is str:
        if value not in limits["choices"]:
            choices = ", ".join(limits["choices"])
            raise ConfigError(path, key, f"expected one of {choices}, got {value!r}")
    elif kind is float and not math.isfinite(value):
        raise ConfigError(path, key, f"must be finite, got {value!r}")
    elif value <= limits["above"]:
        raise ConfigError(path, key, f"must be more than {limits['above']:g}, got {value!r}")
    elif not limits["minimum"] <= value <= limits["maximum"]:
        low, high = limits["minimum"], limits["maximum"]
        bounds = f"at least {low}" if high == math.inf else f"from {low} to {high}"
        raise ConfigError(path, key, f"must be {bounds}, got {value!r}")
    return value


def _read_value(current: Any, text: str) -> Any:
    """Return what ``text`` says, for a setting that is now ``current``, unchecked."""
    if current is None or isinstance(current, str):
        return text.strip("\"'")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _toml(value: str | int | float) -> str:
    if isinstance(value, str):
        # Every string here is one of a list of choices: nothing in it to escape.
        return f'"{value}"'
    return repr(value)

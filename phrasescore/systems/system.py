"""A system: a folder with everything that translates a text.

Its file ``system.toml`` names a moses.ini (the decoder's part), tuned weights, networks in the
search and features of the n-best lists; `docs/translate.md` describes all keys. A moses.ini is a
system, too, with its own weights. Relative paths start in the folder of the file that has them.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec

from moses_integration.decoder import LIMITS, limit_values
from moses_integration.decoder.moses import DecoderCommand
from moses_integration.ini_text import named_files
from moses_integration.moses_ini import MosesIni, WeightsSource, load_weights, weights_path
from moses_integration.weight_lines import format_weight
from phrasescore.arguments import StrPath
from phrasescore.errors import ArgumentError, ConfigError, DataError
from phrasescore.features.columns import Column, number_names, read_column
from phrasescore.features.model import Network
from phrasescore.features.named import NamedFeature
from phrasescore.features.program import Command
from phrasescore.records import ConfidenceCurve, WeightPair
from phrasescore.settings import old_names
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import KINDS, kind_names
from phrasescore.settings.toml_file import TomlTable, read_table, read_value, unknown
from phrasescore.systems.folder import find_system_file
from phrasescore.systems.text import TextProcessing

# Kinds of networks that the search can use, and their features.
SEARCH_FEATURES = {name: KINDS[name].feature for name in kind_names(is_feed_forward=True)}
Limits = Mapping[str, Any]  # by the names of moses.ini's sections
# Keys that ``system.toml`` had up to version 0.3, and that have gone to others.
_OLD_KEYS = (
    *("moses_bin", "search_models", "backoff_lm", "unnormalized"),
    *("confidence_scale", "answer_timeout", "rescore"),
)


@dataclass(frozen=True)
class Moses:
    """Moses as the decoder, given by the folder of its programs."""

    folder: Path

    @property
    def program(self) -> Path:
        """The program that translates."""
        return self.folder / "moses"


@dataclass(frozen=True)
class _Decoder:
    moses: Path | None = None
    command: str | None = None


@dataclass(frozen=True)
class _SystemFile:
    moses_ini: Path | None = None
    paths_from: Path | None = None
    weights: Path | None = None
    search: Any = ()
    lists: Any = ()
    columns: Any = ()
    nbest_size: Annotated[int, msgspec.Meta(ge=1)] = 100
    limits: dict[str, Any] = field(default_factory=dict)
    decoder: _Decoder | None = None
    text: TextProcessing | None = None
    confidence: ConfidenceCurve | None = None


@dataclass(frozen=True)
class System:
    """Everything that translates a text; `read_system` reads one."""

    path: str  # the file, for messages
    # The decoder's part; None only for a command that reads none.
    moses_ini: Path | None
    weights: WeightPair  # for the search, and for the n-best lists
    weights_path: Path | None = None  # None for the weights in the moses.ini
    # The folder where relative paths in the moses.ini start, if its own folder is not meant.
    paths_from: Path | None = None
    search: tuple[Network, ...] = ()  # networks in the search
    lists: tuple[Column, ...] = ()  # features of the n-best lists
    # A record of what added columns of the phrase table are; the values are in the table.
    columns: tuple[Column, ...] = ()
    nbest_size: int = 100
    limits: Limits = field(default_factory=dict)
    decoder: Moses | DecoderCommand | None = None  # None for the search of this package
    text: TextProcessing = TextProcessing()
    confidence: ConfidenceCurve = ConfidenceCurve()
    absolute: frozenset[str] = frozenset()  # the absolute paths that the user wrote

    @classmethod
    def of_command(
        cls, command: str, path: StrPath | None = None, changes: Sequence[str] = ()
    ) -> "System":
        """Return a system that a decoder's command translates with.

        :param path: a system or a moses.ini; None for the moses.ini that Moses' command names.
        """
        decoder = DecoderCommand(command)
        path = path or (decoder.ini_path() if decoder.is_moses else None)
        if path is None:
            return cls(command, None, WeightPair({}, {}), decoder=decoder)
        return replace(read_system(path, changes), decoder=decoder)

    @property
    def folder(self) -> Path:
        """The folder of the system."""
        return Path(self.path).parent

    @property
    def name(self) -> str:
        """The name of the system in messages: of its folder, or of a moses.ini."""
        folder, name = os.path.split(self.path)
        return folder if folder and name == "system.toml" else self.path

    def read_ini(self) -> MosesIni:
        """Return the moses.ini.

        :raises ConfigError: if the system has none.
        """
        if self.moses_ini is None:
            raise ConfigError(self.path, "moses_ini", "is missing: expected a moses.ini")
        return MosesIni.read(str(self.moses_ini), self.paths_from)

    def with_weights(self, source: WeightsSource) -> "System":
        """Return a copy with other weights: values, or those of a file or of another system."""
        path = weights_path(source)
        where = None if path is None else Path(path)
        return replace(self, weights=read_weights(source), weights_path=where)

    @cached_property
    def search_names(self) -> tuple[str, ...]:
        """The names, in n-best lists, of the networks in the search."""
        kinds = (Config.of_model(each.model).kind for each in self.search)
        return tuple(number_names(SEARCH_FEATURES[kind] for kind in kinds))

    def files(self) -> list[str]:
        """Return the files that the system may read, except those in folders of models."""
        texts = (self.text.truecase_source, self.text.truecase_target)
        own = [str(path) for path in (self.moses_ini, self.weights_path, *texts) if path]
        columns = [path for each in (*self.search, *self.lists) for path in each.inputs()]
        named = () if self.moses_ini is None else named_files(self.read_ini())
        # As Moses does, the search may read a compressed file in place of one that is not there.
        return [*own, *map(str, named), *(f"{path}.gz" for path in named), *columns]

    def weight_error(self, problem: str) -> ConfigError:
        """Return an error about the weights."""
        where = "" if self.weights_path is None else f"{self.weights_path}: "
        return ConfigError(self.path, "weights", f"{where}{problem}")


def read_system(path: StrPath, changes: Sequence[str] = ()) -> System:
    """Read a system, and check it and the files that it names, but not their content.

    :param path: the folder of a system, of an experiment or of one of its rows; or the file
        system.toml, or a moses.ini. An experiment stands for the row that is best on dev.
    :param changes: settings that replace those in the file, such as "limits.stack=30".
    :raises ConfigError: if the file is invalid.
    :raises PhrasescoreError: if a file or a model is missing.
    """
    path = find_system_file(os.fspath(path))
    if path.endswith(".ini"):
        values: dict[str, Any] = {"moses_ini": os.path.basename(path)}
        folder = Path(os.path.realpath(os.path.dirname(path)))
        whole = TomlTable(path, "", values, folder=folder)
    else:
        whole = read_table(path)
    return _read(_with_new_keys(whole).changed(dict(map(_parse_change, changes))), path)


def read_weights(source: WeightsSource) -> WeightPair:
    """Return weights from Python, or those of a file of weights, a moses.ini or a system."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if os.path.isdir(path) or path.endswith(".toml"):
            return read_system(path).weights
    return load_weights(source)


def _parse_change(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or (key != "nbest_size" and not key.startswith("limits.")):
        problem = "expected limits.NAME=VALUE, such as limits.stack=30, or nbest_size=N"
        raise ArgumentError(f"--set: {problem}; got {text!r}")
    return key, read_value(value)


def _read(whole: TomlTable, path: str) -> System:
    file = whole.read(_SystemFile)
    decoder = _read_decoder(whole.table("decoder"), file.decoder)
    if file.moses_ini is None and not isinstance(decoder, DecoderCommand):
        raise whole.error("moses_ini", "is missing: expected a moses.ini")
    search = tuple(_read_search(whole, file.search))
    if search and decoder is not None:
        raise whole.error("search", "networks in the search require the search of this package")
    text = file.text or TextProcessing()
    program = decoder.program if isinstance(decoder, Moses) else None
    lists, columns = (
        tuple(_read_columns(whole, key, getattr(file, key))) for key in ("lists", "columns")
    )
    inputs = [path for column in (*search, *lists) for path in column.inputs()]
    own = (file.moses_ini, file.weights, program, text.truecase_source, text.truecase_target)
    for each in (*own, *inputs):
        if each is not None and not Path(each).exists():
            raise DataError(str(each), None, f"{path} names it: cannot open: No such file")
    ini = None if file.moses_ini is None else MosesIni.read(str(file.moses_ini), file.paths_from)
    if file.weights is not None:
        weights = load_weights(file.weights)
    elif ini is not None:
        weights = WeightPair(*[ini.tuneable_weights()] * 2)
    else:
        raise whole.error("weights", "is missing: there is no moses.ini with weights")
    if file.text is None and ini is not None:
        text = TextProcessing.of(ini)
    system = System(
        path=path,
        moses_ini=file.moses_ini,
        weights=weights,
        weights_path=file.weights,
        paths_from=file.paths_from,
        search=search,
        lists=lists,
        columns=columns,
        nbest_size=file.nbest_size,
        limits=dict(read_limits(whole.table("limits"), file.limits)),
        decoder=decoder,
        text=text,
        confidence=file.confidence or ConfidenceCurve(),
        absolute=frozenset(whole.absolute_paths()),
    )
    if ini is not None and file.weights is not None:
        assert file.moses_ini is not None
        # Moses may use a moses.ini in the system's folder as it is.
        is_beside = os.path.realpath(file.moses_ini.parent) == os.path.realpath(system.folder)
        _check_weights(system, ini, are_equal=is_beside)
    return system


def _read_decoder(table: TomlTable, given: _Decoder | None) -> Moses | DecoderCommand | None:
    if given is None:
        return None
    if (given.moses is None) == (given.command is None):
        raise table.error("", "expected either moses = FOLDER or command = COMMAND")
    if given.moses is not None:
        return Moses(given.moses)
    return DecoderCommand(Command(str(given.command)).resolved(table).command)


def _read_columns(whole: TomlTable, key: str, rows: Any) -> Iterator[Column]:
    if not isinstance(rows, list | tuple):
        raise whole.error(key, f"expected a list of tables, got {rows!r}")
    for place, row in enumerate(rows, start=1):
        column = read_column(whole.inner(f"{key} {place}", row))
        if column.kind() == "scores" and key != "columns":
            problem = "a file of scores belongs to lists that exist: use rescore and tune --lists"
            raise whole.error(key, problem)
        if key != "columns":
            _check(whole, key, column)
        yield column


def _check(whole: TomlTable, key: str, column: Column) -> None:
    if isinstance(column, Network) and not Path(column.model).is_dir():
        raise whole.error(key, f"there is no model {column.model}")
    try:
        if isinstance(column, Network):
            column.check_config(Config.of_model(column.model))
        elif isinstance(column, NamedFeature):
            column.find_class()
    except ArgumentError as error:
        raise whole.error(key, str(error)) from error


def _read_search(whole: TomlTable, rows: Any) -> Iterator[Network]:
    for column in _read_columns(whole, "search", rows):
        kinds = " or ".join(SEARCH_FEATURES)
        if not isinstance(column, Network):
            problem = f"expected models of the kind {kinds}, found {column.kind()}"
            raise whole.error("search", problem)
        kind = Config.of_model(column.model).kind
        if kind not in SEARCH_FEATURES:
            problem = f"{column.model}: expected a model of the kind {kinds}, found one of {kind}"
            raise whole.error("search", f"{problem}; it belongs in lists")
        yield column


def read_limits(table: TomlTable, given: Limits) -> Iterator[tuple[str, Any]]:
    """Yield the search's limits in a table by the names of moses.ini's sections."""
    for key, value in given.items():
        name = key.replace("_", "-")
        if (gone := old_names.GONE_KEYS.get(f"search.{name}")) is not None:
            raise table.error(key, f"is gone: {gone}")
        if name not in LIMITS:
            raise table.error(key, unknown("limit", name, LIMITS))
        if (valid := limit_values(LIMITS[name], value)) is not None:
            raise table.error(key, f"expected {valid}, got {value!r}")
        yield name, value


def _check_weights(system: System, ini: MosesIni, *, are_equal: bool) -> None:
    """Reject weights that the moses.ini cannot take.

    :param are_equal: whether to reject weights in whose place Moses would use others, too.
    """
    shown, lines = ini.tuneable_weights(), ini.latest_weight_lines()
    for name, values in system.weights.search.items():
        own = [float(word.group()) for word in lines[name].words[1:]] if name in lines else values
        own = own if len(own) == len(values) else shown.get(name, values)
        if len(own) != len(values):
            problem = f"expected {len(own)} weights for {name}, found {len(values)}"
            raise system.weight_error(problem)
        for place, (one, other) in enumerate(zip(values, own, strict=True)):
            if are_equal and format_weight(one) != format_weight(other):
                label = f"{name}_{place}"
                found = f"{label} is {format_weight(one)}, and {format_weight(other)}"
                cure = "correct one of them, because Moses would use the other one"
                raise system.weight_error(f"{found} in {system.moses_ini}: {cure}")


def _with_new_keys(whole: TomlTable) -> TomlTable:
    """Return the content of a file with the keys of this version."""
    values = whole.values()
    is_old = any(key in values for key in _OLD_KEYS) or isinstance(values.get("search"), Mapping)
    if not is_old and not isinstance(values.get("decoder"), str):
        return whole
    new = {
        key: value for key, value in values.items() if key not in (*_OLD_KEYS, "decoder", "search")
    }
    if values.get("decoder") == "moses":
        new["decoder"] = {"moses": values.get("moses_bin", "")}
    old = values["search"] if isinstance(values.get("search"), Mapping) else {}
    limits = {key.replace("_", "-"): old[key] for key in old}
    limits.pop("buffer-size", None)  # changed only the speed
    if "stack-size" in limits:
        limits["stack"] = limits.pop("stack-size")
    new["limits"] = limits
    models = [{"model": model} for model in values.get("search_models", ())]
    new["search"] = [_with_old_options(whole, values, row) for row in models]
    new["lists"] = list(_old_lists(whole, values))
    if "confidence_scale" in values and "confidence" not in values:
        new["confidence"] = {"scale": values["confidence_scale"]}
    return whole.inner("", new)


def _old_lists(whole: TomlTable, values: Mapping[str, Any]) -> Iterator[Any]:
    rows = values.get("rescore", [])
    if not isinstance(rows, list):
        raise whole.error("rescore", f"expected tables [[rescore]], got {rows!r}")
    for row in rows:
        if not isinstance(row, Mapping):
            yield row
            continue
        own: dict[str, Any] = {str(old_names.KEYS.get(key, key)): row[key] for key in row}
        own |= own.pop("text") if isinstance(own.get("text"), Mapping) else {}
        if (named := old_names.NAMED.get(str(own.get("feature")))) is not None:
            own["feature"] = named
        if "command" in own and "answer_timeout" in values:
            own.setdefault("timeout", values["answer_timeout"])
        yield _with_old_options(whole, values, own) if "model" in own else own


def _with_old_options(whole: TomlTable, values: Mapping[str, Any], row: dict[str, Any]) -> Any:
    """Return the row of a network with the options that the file had for all networks."""
    folder = whole.absolute(str(row["model"]))
    if not os.path.isdir(folder):
        raise whole.error("", f"there is no model {folder}")
    kind = KINDS[Config.of_model(folder).kind]
    if values.get("unnormalized") and kind.is_feed_forward:
        row["unnormalized"] = True
    if "backoff_lm" in values and not kind.reads_source:
        row["backoff_lm"] = values["backoff_lm"]
    return row

"""A system: the file ``system.toml``, which names everything that translates a text.

Paths are relative to the file. Relative paths in the moses.ini are relative to ``paths_from``, the
folder of the moses.ini by default, as in an experiment. ``docs/translate.md`` describes all keys.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from moses_integration.ini_text import named_files
from moses_integration.moses_ini import MosesIni, load_weights
from phrasescore.arguments import StrPath
from phrasescore.errors import ConfigError, DataError, PhrasescoreError
from phrasescore.features.columns import Column, read_column
from phrasescore.features.model import Network
from phrasescore.features.program import Command
from phrasescore.io.output import optional_path
from phrasescore.records import ConfidenceCurve, WeightPair, Weights
from phrasescore.settings import old_names
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import get_kind
from phrasescore.settings.toml_file import TomlTable, read_table
from phrasescore.systems.text import TextProcessing
from phrasescore.workflows.search_settings import SearchSettings, read_limits

_Count = Annotated[int, msgspec.Meta(ge=1)]


@dataclass(frozen=True)
class _SystemFile:
    moses_ini: Path
    paths_from: Path | None = None
    weights: Path | None = None
    decoder: Literal["embedded", "moses"] = "embedded"
    moses_bin: Path | None = None
    nbest_size: _Count = 100
    search_models: tuple[Path, ...] = ()
    backoff_lm: Path | None = None
    unnormalized: bool = False
    confidence: ConfidenceCurve | None = None
    confidence_scale: Annotated[float, msgspec.Meta(gt=0)] = 1.0  # written by 0.3
    answer_timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None  # written by 0.3
    search: dict[str, Any] = field(default_factory=dict)
    text: TextProcessing | None = None
    rescore: Any = ()


@dataclass(frozen=True)
class TranslationSystem:
    """Everything that translates a text, as `read_system` reads it."""

    path: str  # the name of the file
    moses_ini: Path
    paths_from: Path
    text: TextProcessing = TextProcessing()
    search: SearchSettings = SearchSettings()
    columns: tuple[Column, ...] = ()  # the features of the n-best lists
    weights_path: Path | None = None
    weights: WeightPair | None = None  # None for the weights in the moses.ini
    moses_bin: Path | None = None  # the folder of Moses' programs; None for the embedded search
    nbest_size: int = 100
    confidence: ConfidenceCurve = ConfidenceCurve()

    def files(self) -> list[str]:
        """Return the files that the system reads, except those in folders of models."""
        texts = (self.text.truecase_source, self.text.truecase_target)
        own = (self.moses_ini, self.weights_path, *texts)
        backoff = optional_path(self.search.backoff_lm)
        return [
            *(str(path) for path in own if path is not None),
            *([] if backoff is None else [backoff]),
            *self.search.models,
            *map(str, named_files(self.read_ini())),
            *(path for column in self.columns for path in column.inputs()),
        ]

    def read_ini(self) -> MosesIni:
        """Return the moses.ini."""
        return MosesIni.read(str(self.moses_ini), self.paths_from)

    def check_weights(
        self, sizes: dict[str, int], shown: dict[str, int], added: Iterable[str]
    ) -> WeightPair:
        """Return the weights after checking that they fit the features.

        :param sizes: the number of weights of each feature of the search.
        :param shown: the number of values of each feature of the search that n-best lists have.
        :param added: the features of the n-best lists that the search lacks.
        """
        added = list(added)
        if self.weights is None:
            own = self.read_ini().tuneable_weights()
            weights = WeightPair({}, dict(own))
        else:
            weights = self.weights
        if added:
            where = str(self.weights_path or self.moses_ini)
            weights = WeightPair(*(old_names.weights_for(added, part, where) for part in weights))
        search = {name: own for name, own in weights.search.items() if name not in added}
        for name in self.search.feature_names:
            if name not in search:
                raise self._error(f"no weight for the search's feature {name}")
        self._check_lists(weights.lists, {*sizes, *added}, [*shown, *added] if added else [])
        for name, values in search.items():
            if name.partition("_")[0] not in sizes and any(values):
                raise self._error(f"there is a weight for {name}, a feature that the search lacks")
        in_lists = {**shown, **dict.fromkeys(added, 1)} if added else {}
        for numbers, part in ((sizes, search), (in_lists, weights.lists)):
            for name, values in part.items():
                if len(values) != numbers.get(name, len(values)):
                    problem = f"expected {numbers[name]} weights for {name}, found {len(values)}"
                    raise self._error(problem)
        return WeightPair(search, weights.lists)

    def _check_lists(self, weights: Weights, known: set[str], needed: list[str]) -> None:
        for name in needed:
            if name not in weights:
                raise self._error(f"no weight for {name}, a feature of the n-best lists")
        # As in `decode`, a feature with weight 0 may be missing.
        for name in filter(lambda name: any(weights[name]), weights):
            if name.partition("_")[0] not in known:
                problem = f"there is a weight for {name}, a feature that the n-best lists lack"
                raise self._error(problem)

    def _error(self, problem: str) -> ConfigError:
        where = ""
        if self.weights_path is not None:
            where = f"{self.weights_path}: "
        return ConfigError(self.path, "weights", f"{where}{problem}")


def read_system(path: StrPath) -> TranslationSystem:
    """Read a system's file, and check it and the files that it names, but not their content.

    :raises ConfigError: if the file is invalid.
    :raises PhrasescoreError: if a file or a model is missing.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, "system.toml")
    if path.endswith(".ini"):
        cure = f'{path}: expected a TOML file; the line moses_ini = "{os.path.basename(path)}"'
        raise PhrasescoreError(f"{cure} in a file beside it is enough")
    whole = read_table(path)
    file = whole.read(_SystemFile)
    if (file.decoder == "moses") != (file.moses_bin is not None):
        raise whole.error("moses_bin", 'must be given with decoder = "moses", and only there')
    if file.decoder == "moses" and file.search_models:
        raise whole.error("search_models", 'requires decoder = "embedded"')
    limits = read_limits(whole.table("search"), file.search)
    kinds = [_kind_of(whole, "search_models", model) for model in file.search_models]
    columns = tuple(_columns(whole, file))
    try:
        search = SearchSettings(
            features=kinds,
            models=list(map(str, file.search_models)),
            backoff_lm=file.backoff_lm if _is_cslm(kinds) else None,
            unnormalized=file.unnormalized and bool(kinds),
            **limits,
        )
        search.check()
    except PhrasescoreError as error:
        raise whole.error("search_models", str(error).removeprefix("--feature: ")) from error
    text = file.text or TextProcessing()
    moses = None if file.moses_bin is None else file.moses_bin / "moses"
    own = (file.moses_ini, file.weights, moses, file.backoff_lm)
    inputs = [path for column in columns for path in column.inputs()]
    for each in (*own, text.truecase_source, text.truecase_target, *inputs):
        if each is not None and not Path(each).exists():
            raise DataError(str(each), None, f"{path} names it: cannot open: No such file")
    system = TranslationSystem(
        path=path,
        moses_ini=file.moses_ini,
        paths_from=file.paths_from or file.moses_ini.parent,
        text=text,
        search=search,
        columns=columns,
        weights_path=file.weights,
        weights=None if file.weights is None else load_weights(file.weights),
        moses_bin=file.moses_bin,
        nbest_size=file.nbest_size,
        confidence=file.confidence or ConfidenceCurve(file.confidence_scale),
    )
    if file.text is None:
        return replace(system, text=TextProcessing.of(system.read_ini()))
    return system


def _columns(whole: TomlTable, file: _SystemFile) -> Iterator[Column]:
    if not isinstance(file.rescore, list | tuple):
        raise whole.error("rescore", f"expected tables [[rescore]], got {file.rescore!r}")
    for place, row in enumerate(file.rescore, start=1):
        own = dict(row) if isinstance(row, Mapping) else row
        if isinstance(row, Mapping):  # up to 0.3, some words were other ones
            own = {old_names.KEYS.get(key, key): value for key, value in own.items()}
            own |= own.pop("text") if isinstance(own.get("text"), Mapping) else {}
            if (named := old_names.NAMED.get(str(own.get("feature")))) is not None:
                own["feature"] = named
        column = read_column(whole.inner(f"rescore {place}", own))
        if isinstance(column, Network):
            kind = get_kind(_kind_of(whole, "rescore", Path(column.model)))
            if file.unnormalized and kind.is_feed_forward:
                column = replace(column, unnormalized=True)
            if file.backoff_lm is not None and not kind.reads_source:
                column = replace(column, backoff_lm=str(file.backoff_lm))
        elif isinstance(column, Command) and file.answer_timeout is not None:
            column = replace(column, timeout=file.answer_timeout)
        yield column


def _kind_of(whole: TomlTable, key: str, model: Path) -> str:
    if not model.is_dir():
        raise whole.error(key, f"there is no model {model}")
    return Config.of_model(model).kind


def _is_cslm(kinds: Iterable[str]) -> bool:
    return any(not get_kind(kind).reads_source for kind in kinds)

"""The keys that ``system.toml`` had up to version 0.3."""

import os
from collections.abc import Iterator, Mapping
from typing import Any

from phrasescore.settings import old_names
from phrasescore.settings.config import Config
from phrasescore.settings.kinds import KINDS, NetworkKind
from phrasescore.settings.toml_file import TomlTable

# Keys that have gone to others.
_GONE = (
    *("moses_bin", "search_models", "backoff_lm", "unnormalized"),
    *("confidence_scale", "answer_timeout", "rescore"),
)


def with_new_keys(whole: TomlTable) -> TomlTable:
    """Return the content of a file with the keys of this version."""
    values = whole.values()
    is_old = any(key in values for key in _GONE) or isinstance(values.get("search"), Mapping)
    if not is_old and not isinstance(values.get("decoder"), str):
        return whole
    new = {key: value for key, value in values.items() if key not in (*_GONE, "decoder", "search")}
    if values.get("decoder") == "moses":
        new["decoder"] = {"moses": values.get("moses_bin", "")}
    old = values["search"] if isinstance(values.get("search"), Mapping) else {}
    limits = {key.replace("_", "-"): old[key] for key in old}
    limits.pop("buffer-size", None)  # changed only the speed
    if "stack-size" in limits:
        limits["stack"] = limits.pop("stack-size")
    new["limits"] = limits
    models = [{"model": model} for model in values.get("search_models", ())]
    new["search"] = [_with_options(whole, values, row) for row in models]
    new["lists"] = list(_lists(whole, values))
    if "confidence_scale" in values and "confidence" not in values:
        new["confidence"] = {"scale": values["confidence_scale"]}
    return whole.with_values(new)


def _lists(whole: TomlTable, values: Mapping[str, Any]) -> Iterator[Any]:
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
        yield _with_options(whole, values, own) if "model" in own else own


def _with_options(whole: TomlTable, values: Mapping[str, Any], row: dict[str, Any]) -> Any:
    """Return the row of a network with the options that the file had for all networks."""
    kind = _kind(whole, str(row["model"]))
    if values.get("unnormalized") and kind.is_feed_forward:
        row["unnormalized"] = True
    if "backoff_lm" in values and not kind.reads_source:
        row["backoff_lm"] = values["backoff_lm"]
    return row


def _kind(whole: TomlTable, model: str) -> NetworkKind:
    folder = whole.absolute(model)
    if not os.path.isdir(folder):
        raise whole.error("", f"there is no model {folder}")
    return KINDS[Config.of_model(folder).kind]

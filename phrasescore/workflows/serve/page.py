"""The page of a server, and what it says about the system."""

import base64
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from moses_integration.decoder.configuration import LANGUAGE_MODEL, PHRASE_TABLE, REORDERING
from moses_integration.ini_text import named_files
from moses_integration.moses_ini import MosesIni
from moses_integration.text_settings import TextSettings
from phrasescore.errors import PhrasescoreError
from phrasescore.evaluation.systems_table import TABLE, read_systems_table
from phrasescore.io.text import open_input
from phrasescore.records import ConfidenceCurve
from phrasescore.systems.ranking import FeaturePart
from phrasescore.systems.system import System
from phrasescore.version import __version__
from phrasescore.workflows.building.preparation import CORPUS

# The groups of kinds of features and of columns, besides "others".
_GROUPS = {
    **dict.fromkeys((PHRASE_TABLE, REORDERING, "lexicon", "reverse_lexicon"), "tables"),
    **dict.fromkeys((LANGUAGE_MODEL, "lm"), "language models"),
    **dict.fromkeys(("model", "ctranslate2"), "networks"),
}


@dataclass(frozen=True)
class ServedSystem:
    """What is known of a system without loading it."""

    name: str
    facts: dict[str, Any] = field(default_factory=dict)  # for the page's script
    # The group of each feature of the search; TranslationModel0_4 stands for one of its values.
    groups: dict[str, str] = field(default_factory=dict)
    of_lists: tuple[str, ...] = ()  # the groups of the features that only the lists have

    @classmethod
    def of(cls, system: System) -> "ServedSystem":
        """Return what is known of a system."""
        ini = system.read_ini()
        kinds = {each.name: each.kind for each in ini.features}
        kinds |= dict.fromkeys(system.search_names, "model")
        kinds |= {str(column.name): column.kind() for column in system.columns}
        facts = {
            "languages": TextSettings(tokenize=system.text.tokenize).languages(),
            "expected": _expected(system, ini),
            "example": _find_example(system, ini),
            "isCalibrated": system.confidence != ConfidenceCurve(),
        }
        groups = {name: _GROUPS.get(kind, "others") for name, kind in kinds.items()}
        of_lists = tuple(_GROUPS.get(column.kind(), "others") for column in system.lists)
        return cls("/".join(Path(system.path).parts[-3:]), facts, groups, of_lists)

    def sums(self, features: Iterable[FeaturePart]) -> dict[str, float]:
        """Return what each group of features contributes to the score of a hypothesis."""
        sums: dict[str, float] = defaultdict(float)
        of_lists = iter(self.of_lists)
        for part in features:
            own = self.groups.get(part.name) or next(of_lists)
            for place, (value, weight) in enumerate(zip(part.values, part.weights, strict=True)):
                sums[self.groups.get(f"{part.name}_{place}", own)] += value * weight
        return sums

    def render(self) -> tuple[bytes, dict[str, str]]:
        """Return the page and its headers, which forbid other scripts, styles and requests."""
        folder = resources.files(__package__)
        style = resources.files("phrasescore.report") / "page_parts" / "page.css"
        parts = {
            "style": style.read_text("utf-8") + (folder / "page.css").read_text("utf-8"),
            "script": (folder / "page.js").read_text("utf-8"),
            "name": escape(self.name.removesuffix("/system.toml")),
            "version": __version__,
            "facts": escape(json.dumps(self.facts)),
        }
        page = (folder / "page.html").read_text("utf-8")
        for key, text in parts.items():
            page = page.replace(f"{{{{ {key} }}}}", text)
        policy = (
            f"default-src 'none'; script-src '{_hash(parts['script'])}'; "
            f"style-src '{_hash(parts['style'])}'; connect-src 'self'; img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
        return page.encode(), headers


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _expected(system: System, ini: MosesIni) -> str:
    text = system.text
    rules = {
        "tokenises": bool(text.tokenize),
        "lower-cases": text.lowercase,
        "truecases": text.truecase_source is not None,
        "splits into characters": ini.text_settings().characters,
    }
    rule = " and ".join(name for name, applies in rules.items() if applies)
    own = f"; the system {rule} it" if rule else ", in the casing of the system"
    return f"{'Ordinary text' if text.tokenize else 'Words and punctuation apart'}{own}."


def _find_example(system: System, ini: MosesIni) -> str:
    """Return about 12 words of the experiment's dev, or of the text that `build` read, if any."""
    try:
        # The folder of a row may have one for each replica.
        tables = [base / TABLE for base in Path(os.path.realpath(system.folder)).parents[:2]]
        for table in filter(os.path.exists, tables):
            texts = read_systems_table(str(table)).texts
            return next((_choose(table.parent / text.source) for text in texts if text.tuned), "")
        files = () if ini.text_settings().characters else named_files(ini)
        corpora = (path.parent / CORPUS[0] for path in files)
        return _choose(next(filter(os.path.exists, corpora)))
    except (OSError, PhrasescoreError, StopIteration):  # translations do not need these files
        return ""


def _choose(path: Path) -> str:
    with open_input(str(path)) as stream:
        lines = [line.decode(errors="replace").strip() for line in islice(stream, 200)]
    return min(lines, key=lambda line: ("&" in line, abs(line.count(" ") - 12)), default="")

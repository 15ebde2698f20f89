"""What is promised in words: help, README, pages in docs/, docstrings."""

import ast
import functools
import gzip
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import phrasescore
from phrasescore.cli import VERBS, main
from phrasescore.settings.kinds import KINDS
from tests.forked import Forked, run_script

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGES = ("phrasescore", "moses_integration", "tuning")
PYTHON_FILES = sorted(
    path
    for folder in (*PACKAGES, "tests", "examples")
    for path in (REPOSITORY / folder).rglob("*.py")
)


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@functools.cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in PYTHON_FILES}


def _commands() -> Iterator[tuple[str, click.Command]]:
    waiting: list[tuple[str, click.Command]] = [("phrasescore", main)]
    while waiting:
        words, command = waiting.pop()
        yield words, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                member = command.get_command(context, name)
                assert member is not None, f"{words} lists {name} and has it not"
                waiting.append((f"{words} {name}", member))


def test_every_command_and_option_is_explained() -> None:
    silent = []
    for words, command in _commands():
        if not command.help:
            silent.append(words)
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.help:
                silent.append(f"{words} {parameter.opts[0]}")
            # An argument has no help of its own in click: the command's text names it.
            if isinstance(parameter, click.Argument):
                shown = parameter.metavar or parameter.human_readable_name
                if not re.search(re.sub(r"\W+", "|", shown), command.help or "", re.IGNORECASE):
                    silent.append(f"{words} {shown}")
    assert silent == []


README = REPOSITORY / "README.md"
DOCS = REPOSITORY / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [README, REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "SECURITY.md", *PAGES]


def test_every_verb_has_a_page_that_readme_and_list_of_verbs_link() -> None:
    readme = README.read_text(encoding="utf-8")
    verbs = (DOCS / "verbs.md").read_text(encoding="utf-8")
    for verb in VERBS:
        assert (DOCS / f"{verb}.md").read_text(encoding="utf-8").startswith(f"# {verb}\n")
        assert f"[{verb}](docs/{verb}.md)" in readme
        assert f"]({verb}.md)" in verbs


def test_every_option_is_in_the_page_of_its_verb() -> None:
    # The site's extension adds all options but the hidden ones.
    options_of = importlib.import_module("docs.verb_options").options_of
    missing = []
    for words, command in _commands():
        page = DOCS / f"{words.split()[-1]}.md"
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        options = options_of(command.name) if command.name in VERBS else ""
        shown = {
            flag
            for line in re.findall("^#### `(.+)`", options, re.M)
            for flag in re.split("[ ,]+", line)
        }
        for param in command.params:
            if isinstance(param, click.Option) and param.hidden:
                missing += [f"{words} {flag}" for flag in param.opts if flag not in text]
            elif isinstance(param, click.Option) and options:
                flags = {*param.opts, *param.secondary_opts}
                missing += [f"{words} {flag}" for flag in flags - shown]
    assert missing == []


def test_the_options_of_a_verb_are_headings_that_a_link_leads_to() -> None:
    options = importlib.import_module("docs.verb_options").options_of("rerank").splitlines()
    assert options[:4] == ["## Options", "", "```text", "phrasescore rerank [OPTIONS] NBEST"]
    assert "### Output" in options
    place = options.index("#### `-h, --help` { #--help }")
    assert options[place + 2] == "Show this message and exit."
    badges = [line.rpartition("`{ ")[2] for line in options if " .badge" in line or "[" in line]
    assert badges == ["phrasescore rerank [OPTIONS] NBEST", ".badge .required }", ".badge }"]


def test_the_readme_is_short() -> None:
    readme = README.read_text(encoding="utf-8")
    assert len(readme.split()) <= 850
    assert [line for line in readme.splitlines() if len(line) > 100] == []


_NUMBER = re.compile(r"(?<![\w.,])[+-]?\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")
_NOT_MEASURED = {"3.11"}  # Python's version


def test_every_figure_of_readme_is_one_of_the_results() -> None:
    readme = README.read_text(encoding="utf-8")
    results = (DOCS / "results.md").read_text(encoding="utf-8")
    (demo,) = re.findall("^```\n( +dev .*?)^```$", readme, re.DOTALL | re.M)
    assert demo in (DOCS / "experiment.md").read_text(encoding="utf-8")
    text = re.sub(r"\]\([^)]*\)", "]", _without_code(README))
    shown, known = ({x.lstrip("+") for x in _NUMBER.findall(each)} for each in (text, results))
    assert shown - known - _NOT_MEASURED == set()
    # Each row of "When does it pay?" has BLEU before and after, and the gain.
    rows = re.findall(r"\| ([\d.]+) → ([\d.]+) \(\+([\d.]+)\) \|$", readme, re.M)
    assert len(rows) == 8
    gains = [abs(float(after) - float(before) - float(gain)) for before, after, gain in rows]
    assert max(gains) < 0.011  # rounded


def test_the_docs_are_short() -> None:
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES) <= 33_000


def test_every_page_is_in_the_site_s_menu() -> None:
    site = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    menu = re.findall(r"^ +- (?:.+: )?([\w/-]+\.md)$", site, re.MULTILINE)
    assert sorted(menu) == sorted(str(page.relative_to(DOCS)) for page in PAGES)


def test_links_lead_from_the_index_to_every_page() -> None:
    found, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        if page not in found:
            found.add(page)
            links = re.findall(r"\]\(([\w./-]+\.md)", page.read_text(encoding="utf-8"))
            waiting += [(page.parent / link).resolve() for link in links]
    assert set(PAGES) - found == set()


def test_the_reference_has_every_public_name_once() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    names = re.findall(r"^::: phrasescore\.(\w+)$", pages, re.MULTILINE)
    assert sorted(set(names) - {"errors"}) == phrasescore.__all__
    assert len(names) == len(set(names))


@pytest.mark.parametrize("path", TEXTS, ids=_name)
def test_every_link_leads_somewhere(path: Path) -> None:
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _without_code(path)):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        # A page may link what is in docs/ alone: the site holds nothing else.
        inside = path not in PAGES or target.is_relative_to(DOCS)
        if not (inside and target.is_file() and (not anchor or anchor in _anchors(target))):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("path", TEXTS, ids=_name)
def test_every_file_of_the_project_that_a_text_names_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = re.findall(r"\b(?:phrasescore|tests|examples)/[\w./-]*\w", text)
    assert [name for name in named if not (REPOSITORY / name).exists()] == []


def _without_code(path: Path) -> str:
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_that_a_page_explains_is_there(verb: str) -> None:
    known = {flag for _, command in _commands() for param in command.params for flag in param.opts}
    text = _without_code(DOCS / f"{verb}.md")
    text = re.sub("## In place of mert-moses.pl.*?\n## ", "", text, flags=re.DOTALL)  # its options
    named = set(re.findall(r"`(--[a-z][\w-]*)", text))
    assert named - known - {"--paired-ar"} == set()  # sacrebleu's


def test_every_kind_of_network_is_named_where_all_are() -> None:
    features = (DOCS / "features.md").read_text(encoding="utf-8")
    generate = (DOCS / "generate.md").read_text(encoding="utf-8").partition("\n## ")[0]
    for name, kind in KINDS.items():
        assert f"`{kind.feature}0`" in features
        assert kind.is_feed_forward or f"`{name}`" in generate


LIBRARY = DOCS / "library.md"
EXAMPLE = REPOSITORY / "examples" / "english-french"
PUBLIC = {
    *("load_model", "train", "annotate", "rescore", "rerank", "tune"),
    *("tune_system", "generate", "segment", "select", "evaluate", "perplexity"),
    *("make_report", "run_experiment", "export", "score"),
    *("show", "fine_tune", "build", "build_lm"),
    *("load_system", "read_system", "translate", "export_system"),
    "read_lists",
}


def test_every_public_function_is_in_the_library_s_page() -> None:
    blocks = "".join(_python_blocks(LIBRARY))
    assert [name for name in PUBLIC if f"phrasescore.{name}(" not in blocks] == []


@pytest.mark.timeout(600)
@pytest.mark.skipif(not PUBLIC.issubset(phrasescore.__all__), reason="not all functions are there")
def test_the_python_examples_run(tmp_path: Path) -> None:
    _copy_example(tmp_path)
    script = tmp_path / "examples.py"
    # For pools as small as these, MERT would start 240 times near the best weights.
    quick = "import tuning.mert\ntuning.mert.SMALL = 1\n"
    script.write_text("\n".join([quick, *_python_blocks(LIBRARY), *_python_blocks(README)]))
    process = Forked(run_script, str(script), cwd=tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    for name in (
        "with-rnn/phrase-table.gz",
        "test.rescored.gz",
        "tuned/weights",
        "report/index.html",
    ):
        assert (tmp_path / name).is_file(), name


def _python_blocks(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def _copy_example(folder: Path) -> None:
    """Copy the files of the example into a folder, shortened: examples need no large ones."""
    sizes = {"train": 300, "dev": 20, "test": 20, "phrase-table": 4000, "reordering-table": 4000}
    for path in EXAMPLE.iterdir():
        if path.suffix == ".py" or path.is_dir():
            continue
        data = path.read_bytes()
        limit = sizes.get(path.name.partition(".")[0])
        if limit is not None:
            lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines(True)
            lists = "best" in path.name
            kept = [line for line in lines if int(line.split()[0]) < limit] if lists else lines
            data = b"".join(kept if lists else kept[:limit])
            data = gzip.compress(data) if path.suffix == ".gz" else data
        (folder / path.name).write_bytes(data)


def test_every_file_says_what_it_is() -> None:
    assert [_name(path) for path, tree in _trees().items() if not ast.get_docstring(tree)] == []


def test_every_public_function_and_class_has_a_docstring() -> None:
    silent = [
        f"{_name(path)}: {name}"
        for path, tree in _trees().items()
        if path.relative_to(REPOSITORY).parts[0] in PACKAGES
        for name, node in _public(tree, "")
        if not ast.get_docstring(node)
    ]
    assert silent == []


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _public(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, _Definition]]:
    for node in parent.body:
        if not isinstance(node, _Definition) or node.name.startswith("_"):
            continue
        if isinstance(parent, ast.ClassDef) and _is_explained_above(parent, node.name):
            continue
        yield f"{prefix}{node.name}", node
        # The methods of a torch.autograd.Function are torch's; its class explains it.
        if isinstance(node, ast.ClassDef) and not _is_autograd_function(node):
            yield from _public(node, f"{node.name}.")


@functools.cache
def _classes() -> dict[str, ast.ClassDef]:
    nodes = (node for tree in _trees().values() for node in ast.walk(tree))
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


def _is_explained_above(node: ast.ClassDef, method: str) -> bool:
    """Return whether a base class, of this project, explains a method that the class replaces."""
    bases = [_classes().get(ast.unparse(base).partition("[")[0]) for base in node.bases]
    return any(
        any(name == method and ast.get_docstring(each) for name, each in _public(base, ""))
        or _is_explained_above(base, method)
        for base in bases
        if base is not None
    )


def _is_autograd_function(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base) in ("Function", "torch.autograd.Function") for base in node.bases)


# What could run code that a file holds.
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}


def test_nothing_runs_code_that_it_loads() -> None:
    found = [
        f"{_name(path)}:{line}: {what}"
        for path, tree in _trees().items()
        for line, what in _code_loaders(tree)
    ]
    assert found == []


def _code_loaders(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").partition(".")[0]]
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, what) for what in _suspicious_call(node))
            continue
        else:
            continue
        yield from ((node.lineno, name) for name in names if name in FORBIDDEN_MODULES)


def _suspicious_call(node: ast.Call) -> Iterator[str]:
    if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
        yield node.func.id
    for keyword in node.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if (keyword.arg, value) in (
            ("shell", True),
            ("weights_only", False),
            ("allow_pickle", True),
        ):
            yield f"{keyword.arg}={value!r}"
    if ast.unparse(node.func) in ("torch.load", "os.system", "os.popen"):
        yield ast.unparse(node.func)


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import load",
        "eval(text)",
        "exec(text)",
        "run(text, shell=True)",
        "torch.load(path, weights_only=False)",
        "numpy.load(path, allow_pickle=True)",
    ],
)
def test_the_search_for_code_loaders_finds_them(code: str) -> None:
    assert len(list(_code_loaders(ast.parse(code)))) >= 1

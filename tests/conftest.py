"""Fixtures that several test files share; few on purpose."""

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from phrasescore.settings.compute import Compute
    from tests.browser import NewPage

# With a worker per core, the second thread of a test has no core of its own, and spins for nothing.
# torch reads both when it is loaded; what it computes does not depend on them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

# In the background of a shell script SIGINT is ignored, and under nohup SIGHUP. Programs that tests
# start would inherit that and never end; where there is a handler, they begin with the default.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# An example may be the first to need a compiled function; and no test is timed. Every run draws
# other examples.
hypothesis.settings.register_profile("untimed", deadline=None, max_examples=40)
hypothesis.settings.load_profile("untimed")

REPOSITORY = Path(__file__).resolve().parent.parent

# Doctests are sought in every file, and to import this one is to pretend in the whole process.
collect_ignore = ["pretend_cuda.py"]

# Seconds that a test with one of these marks may take; others have the limit in setup.cfg.
LONG = {"slow": 1800, "gpu": 1800, "moses": 1800}

# Sorted as Moses sorts; two sources of three targets and of one. Scores and counts by hand.
TINY_TABLE = """\
la maison ||| the building ||| 0.25 0.5 ||| 0-0 1-1 ||| 2 4 1 ||| |||
la maison ||| the home ||| 0.25 0.5 ||| 0-0 1-1 ||| 1 4 1 ||| |||
la maison ||| the house ||| 0.5 0.5 ||| 0-0 1-1 ||| 4 4 2 ||| |||
rue ||| street ||| 1 0.125 ||| 0-0 ||| 3 3 3 ||| |||
"""


def pytest_configure() -> None:
    if pretended := os.environ.get("PRETENDED_PROCESSOR"):
        _pretend(pretended)
    if "PYTEST_XDIST_WORKER" in os.environ:  # this is a worker, or what one has started
        from tests.compile_once import share_compiled_functions

        share_compiled_functions()


def _pretend(processor: str) -> None:
    """Let torch report the instructions of another processor, as CONTRIBUTING.md describes.

    AMX may be added, because only torch's code uses it, and torch asks the processor itself.
    """
    if processor == "avx2":  # the programs that tests start read it as well
        os.environ["ATEN_CPU_CAPABILITY"] = "avx2"
    import torch

    lacking = {"amx": (), "avx512": ("amx",), "avx2": ("amx", "avx512", "avx_vnni")}[processor]
    found = torch.cpu.get_capabilities()
    units = {name: value and not name.startswith(lacking) for name, value in found.items()}
    if processor == "amx":
        units |= dict.fromkeys(("amx_tile", "amx_bf16", "amx_int8"), True)
    torch.cpu.get_capabilities = lambda: units  # type: ignore[assignment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The longest ones first: at the end, other workers would wait for them.
    items.sort(key=lambda item: "pretend_cuda" not in item.nodeid)
    for item in items:
        if any(name in item.nodeid for name in ("translat", "embedded", "fuzz", "pretend_cuda")):
            # The first one compiles the search or makes all material, which takes a core a minute.
            item.add_marker(pytest.mark.timeout(600))
        for mark in item.iter_markers():
            if mark.name in LONG:
                item.add_marker(pytest.mark.timeout(LONG[mark.name]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test of int8 where its products are refused, as on processors without VNNI."""
    del item
    from phrasescore.errors import PhrasescoreError
    from phrasescore.kernels import integers

    try:
        yield
    except PhrasescoreError as error:
        if "8-bit integers are not exact" not in str(error):
            raise
        try:
            integers.check_exact(64, 300)
        except PhrasescoreError:
            pytest.skip(str(error))
        raise  # a processor that multiplies bytes exactly at one size has to at all sizes


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    from tests.ray_here import run_ray

    yield from run_ray()


@pytest.fixture(params=["processes", pytest.param("ray", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> "Compute":
    """An engine of two workers."""
    from phrasescore.settings.compute import Compute

    if request.param == "ray":
        request.getfixturevalue("ray")
    return Compute(engine=request.param, workers=2)


@pytest.fixture
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real Moses output beside the checkout; a test that needs it skips without."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not (folder / "phrase-table.gz").is_file():
        pytest.skip(f"needs the real task in {folder}")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Chromium; of one module only, since no other test of this thread may have an event loop."""
    from tests.browser import open_browser

    with open_browser() as running:
        yield running


@pytest.fixture
def page_problems() -> list[str]:
    """What went wrong in pages; a test that expects something checks and clears the list."""
    return []


@pytest.fixture
def new_page(browser: "Browser", page_problems: list[str]) -> Iterator["NewPage"]:
    """Open pages; the test fails if the console or the network of one shows a problem."""
    from tests.browser import SCREENS, watch

    def open_page(screen: str = "desktop", **options: Any) -> "Page":
        page = browser.new_context(**SCREENS[screen], **options).new_page()
        page.set_default_timeout(60_000)
        watch(page, page_problems)
        return page

    yield open_page
    assert page_problems == []
    for context in browser.contexts:
        context.close()


@pytest.fixture
def tiny_table(tmp_path: Path) -> Path:
    """A phrase table of four lines, two sources, two scores."""
    path = tmp_path / "tiny.fr-en.phrase-table"
    path.write_text(TINY_TABLE, encoding="utf-8")
    return path


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch use one thread: on more, tiny products only wait for one another."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def uninitialized_memory_is_nan() -> Iterator[None]:
    """Let torch fill what ``torch.empty`` returns with NaN, which no result may show."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    only_warns = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(before, warn_only=only_warns)


@pytest.fixture(autouse=True)
def _usual_verbosity() -> None:
    """Undo what ``--quiet`` and ``--verbose`` before, in fixtures too, set for a whole process."""
    import logging

    from phrasescore.cli.options import LOGGERS

    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO)

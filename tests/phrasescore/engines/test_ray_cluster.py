"""Promises of the engine ``ray`` on a cluster: three nodes, on this machine."""

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from phrasescore.engines import open_pool
from phrasescore.settings.compute import Compute

if importlib.util.find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)


@dataclass(frozen=True)
class Slow:
    """Takes a while for each number, and notes where it runs."""

    folder: Path

    def load(self) -> Callable[[int], int]:
        return self._triple

    def _triple(self, number: int) -> int:
        (self.folder / os.environ["RAY_RAYLET_PID"]).touch()
        time.sleep(0.1)
        return 3 * number


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    found = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
    )
    yield found
    found.shutdown()


@pytest.mark.slow
def test_a_node_that_is_killed_costs_its_pieces_alone(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    with open_pool(Compute(engine="ray"), Slow(tmp_path)) as pool:
        results = pool.map(range(90))
        found = [next(results) for _ in range(20)]
        cluster.remove_node(nodes[1], allow_graceful=False)
        found += results
    assert found == [3 * number for number in range(90)]
    assert pool.workers == 3
    assert len(list(tmp_path.iterdir())) == 3


def test_what_we_start_is_bound_to_this_machine_and_asks_for_a_token(tmp_path: Path) -> None:
    code = f"""
import os
from pathlib import Path
from phrasescore.engines import open_pool
from phrasescore.settings.compute import Compute
from tests.phrasescore.engines.test_ray_cluster import Slow
with open_pool(Compute(engine="ray", workers=1), Slow(Path({str(tmp_path)!r}))) as pool:
    assert list(pool.map([1])) == [3]
    import ray
    print(ray.get_runtime_context().gcs_address, os.environ["RAY_AUTH_MODE"],
          len(os.environ["RAY_AUTH_TOKEN"]), os.environ["RAY_USAGE_STATS_ENABLED"])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    address, *rest = run.stdout.split()
    assert address.startswith("127.0.0.1:")
    assert rest == ["token", "64", "0"]

"""How long a large job takes on how many workers: a simulation fed with measured rates.

One driver reads pieces, sends them to workers, and writes the results in order; at most a window of
pieces is under way. Workers load, compute at their own pace, die now and then, and are replaced.
The rates are arguments: ``docs/cluster.md`` has those of the machine that it was measured on.
"""

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import click
from tabulate import tabulate

_HOUR = 3600.0


@dataclass(frozen=True)
class Rates:
    """What was measured, and what a cluster is like."""

    # Lines per second that the driver reads and sends, and takes and writes, with one core.
    driver: float
    # Lines per second of a worker with one core.
    worker: float
    # Lines of a piece, and bytes per line that go to a worker and come back.
    piece: int
    line_bytes: float
    # Seconds until a worker has started and loaded.
    load: float
    # Megabytes of the driver for each piece under way, and of a worker.
    piece_megabytes: float
    worker_megabytes: float
    # Standard deviation of the logarithm of a worker's pace, drawn for each worker.
    uneven: float = 0.1
    # Deaths per worker and hour.
    deaths: float = 0.01
    # Price of a core for an hour.
    price: float = 0.04


@dataclass(frozen=True)
class Outcome:
    seconds: float
    # Shares of the time, 0 to 1: the driver's core, and the workers on average.
    driver_busy: float
    workers_busy: float
    # Pieces that were computed again.
    repeated: int


def simulate(rates: Rates, lines: int, workers: int, seed: int = 1) -> Outcome:
    """Return how one job goes; times are those of one drawn course."""
    draw = random.Random(seed)
    num_pieces = -(-lines // rates.piece)
    window = 2 * workers + 1
    pace = [draw.lognormvariate(0.0, rates.uneven) for _ in range(workers)]
    of_driver = rates.piece / rates.driver
    # (time, number, worker, piece): a worker is free; the piece is the one that it has computed.
    events = [(rates.load, worker, worker, -1) for worker in range(workers)]
    heapq.heapify(events)
    waiting: list[int] = []  # pieces of dead workers
    idle: list[int] = []
    done: set[int] = set()
    sent = written = count = 0
    driver_free = busy = 0.0
    repeated = 0
    count = workers
    now = 0.0
    while written < num_pieces:
        now, _, worker, piece = heapq.heappop(events)
        if piece >= 0:
            done.add(piece)
        while written in done:
            done.remove(written)
            written += 1
        idle.append(worker)
        while idle and (waiting or (sent < num_pieces and sent - written < window)):
            worker = idle.pop()
            if waiting:
                piece = waiting.pop()
            else:
                piece, sent = sent, sent + 1
                driver_free = max(driver_free, now) + of_driver
            begin = max(now, driver_free)
            takes = rates.piece / rates.worker * pace[worker]
            count += 1
            if draw.random() < rates.deaths * takes / _HOUR:
                waiting.append(piece)
                repeated += 1
                lost = draw.random() * takes
                heapq.heappush(events, (begin + lost + rates.load, count, worker, -1))
                continue
            busy += takes
            heapq.heappush(events, (begin + takes, count, worker, piece))
    seconds = max(now, driver_free)
    return Outcome(seconds, num_pieces * of_driver / seconds, busy / (seconds * workers), repeated)


def plan(rates: Rates, lines: int, workers: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
    for number in workers:
        found = simulate(rates, lines, number)
        memory = rates.piece_megabytes * (2 * number + 1)
        network = lines * rates.line_bytes / found.seconds / 1e6
        cost = rates.price * (number + 1) * found.seconds / _HOUR
        yield (
            f"{number:,}",
            f"{found.seconds / _HOUR:,.2f}",
            f"{100 * found.driver_busy:.0f} %",
            f"{100 * found.workers_busy:.0f} %",
            f"{found.repeated:,}",
            f"{memory:,.0f}",
            f"{number * rates.worker_megabytes / 1e3:,.1f}",
            f"{network:,.1f}",
            f"{cost:,.2f}",
        )


HEADERS = (
    *("workers", "hours", "driver busy", "workers busy", "repeated"),
    *("driver MB", "workers GB", "network MB/s", "cost"),
)


@click.command()
@click.option("--lines", multiple=True, type=int, default=(250_000_000, 1_000_000_000))
@click.option("--workers", multiple=True, type=int, default=(1, 2, 8, 32, 100, 300))
@click.option("--driver", type=float, required=True, help="Lines per second of its core.")
@click.option("--worker", type=float, required=True, help="Lines per second of one core.")
@click.option("--piece", type=int, default=16384, show_default=True, help="Lines of a piece.")
@click.option("--line-bytes", type=float, default=200.0, show_default=True)
@click.option("--load", type=float, default=10.0, show_default=True, help="Seconds to start.")
@click.option("--piece-mb", type=float, default=8.0, show_default=True)
@click.option("--worker-mb", type=float, default=600.0, show_default=True)
@click.option("--uneven", type=float, default=0.1, show_default=True)
@click.option("--deaths", type=float, default=0.01, show_default=True, help="Per worker and hour.")
@click.option("--price", type=float, default=0.04, show_default=True, help="Per core and hour.")
def main(
    lines: tuple[int, ...],
    workers: tuple[int, ...],
    driver: float,
    worker: float,
    piece: int,
    line_bytes: float,
    load: float,
    piece_mb: float,
    worker_mb: float,
    uneven: float,
    deaths: float,
    price: float,
) -> None:
    rates = Rates(driver, worker, piece, line_bytes, load, piece_mb, worker_mb)
    rates = replace(rates, uneven=uneven, deaths=deaths, price=price)
    for size in lines:
        click.echo(f"{size:,} lines")
        click.echo(tabulate(plan(rates, size, workers), HEADERS, "github", disable_numparse=True))


if __name__ == "__main__":
    main()

"""Translate sentences in order while the next ones are read."""

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator

from phrasescore.engines import Pending, WorkerPool
from phrasescore.errors import PhrasescoreError
from phrasescore.workflows.translation.pipeline import SystemOutput, SystemTask

AHEAD = 4  # sentences queued per worker, so that all stay busy during a slow sentence
END = object()  # after the last task
NextTask = Callable[[bool], object]  # returns a task or `END`; if it need not wait, maybe None


def in_order(
    pool: WorkerPool[SystemTask, SystemOutput], next_task: NextTask
) -> Iterator[tuple[SystemTask, SystemOutput]]:
    """Yield tasks with their outputs, each as soon as it is ready and those before it are."""
    pending: deque[tuple[SystemTask, Pending[SystemOutput]]] = deque()
    window = AHEAD * pool.workers
    task: object = None
    problem: PhrasescoreError | None = None
    while task is not END or pending:
        if task is not END and len(pending) < window:
            try:
                task = next_task(not pending)
            except PhrasescoreError as error:  # it is raised after the sentences before it
                task, problem = END, error
            if isinstance(task, SystemTask):
                pending.append((task, pool.submit(task)))
                continue
        if pending:
            first, output = pending.popleft()
            yield first, output.result()
    if problem is not None:
        raise problem


def read_in_thread(tasks: Iterator[SystemTask], size: int) -> NextTask:
    """Return a function that returns the next task, or None if it would have to wait."""
    read: queue.Queue[tuple[object, Exception | None]] = queue.Queue(size)

    def run() -> None:
        try:
            for task in tasks:
                read.put((task, None))
            read.put((END, None))
        except Exception as error:
            read.put((END, error))

    threading.Thread(target=run, daemon=True).start()

    def next_task(wait: bool) -> object:
        try:
            task, error = read.get(wait)
        except queue.Empty:
            return None
        if error is not None:
            raise error
        return task

    return next_task

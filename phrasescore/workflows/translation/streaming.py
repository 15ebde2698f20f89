"""Translate sentences in order while the next ones are read."""

import queue
import threading
from collections import deque
from collections.abc import Iterator

from phrasescore.engines import Pending, WorkerPool
from phrasescore.errors import PhrasescoreError
from phrasescore.workflows.translation.pipeline import SystemOutput, SystemTask

_AHEAD = 4  # sentences queued per worker, so that all stay busy during a slow sentence
_END = object()  # after the last task


def in_order(
    pool: WorkerPool[SystemTask, SystemOutput], tasks: Iterator[SystemTask], *, is_live: bool
) -> Iterator[tuple[SystemTask, SystemOutput]]:
    """Yield tasks with their outputs, each as soon as it is ready and those before it are.

    An error in reading a task is raised after the outputs of the tasks before it.

    :param is_live: whether to yield outputs while the next task is awaited; a thread reads them.
    """
    window = _AHEAD * pool.workers
    live = _LiveTasks(tasks, window) if is_live else None
    pending: deque[tuple[SystemTask, Pending[SystemOutput]]] = deque()
    task: object = None
    problem: PhrasescoreError | None = None
    while task is not _END or pending:
        if task is not _END and len(pending) < window:
            first = pending[0][1] if pending else None
            try:
                task = next(tasks, _END) if live is None else live.next(first)
            except PhrasescoreError as error:
                task, problem = _END, error
            if isinstance(task, SystemTask):
                pending.append((task, pool.submit(task)))
            if task is not _END and not (task is None and first is not None and first.done()):
                continue
        if pending:
            done, output = pending.popleft()
            yield done, output.result()
    if problem is not None:
        raise problem


class _LiveTasks:
    """Tasks that a thread reads, so that a finished one need not wait for the next one."""

    def __init__(self, tasks: Iterator[SystemTask], size: int) -> None:
        self._room = threading.Semaphore(size)
        # A task, `_END` with an error or without one, or None: a task is finished.
        self._events: queue.SimpleQueue[tuple[object, Exception | None]] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(tasks,), daemon=True).start()

    def _read(self, tasks: Iterator[SystemTask]) -> None:
        try:
            for task in tasks:
                self._room.acquire()
                self._events.put((task, None))
            self._events.put((_END, None))
        except Exception as error:
            self._events.put((_END, error))

    def next(self, first: Pending[SystemOutput] | None) -> object:
        """Return the next task or `_END`, or None, at the latest when ``first`` is done."""
        if first is not None:
            first.add_done_callback(lambda _: self._events.put((None, None)))
        task, error = self._events.get()
        if error is not None:
            raise error
        if task is not None and task is not _END:
            self._room.release()
        return task

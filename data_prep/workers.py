"""Where the work of a command is done: processes of this machine, or a Dask cluster.

Dask gives the work of a worker that is lost to another one; all work is written to files that
appear complete or not at all, so it can be repeated.
"""

import contextlib
import logging
import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from albert_tf.errors import InputError
from data_prep.parallel import QUEUED_PER_PROCESS, Item, Result, Workers, process_count

if TYPE_CHECKING:
    import distributed

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 30
_SECONDS_TO_FIRST_WORKER = 300  # clusters often start workers when they are needed
_SECONDS_BETWEEN_CHECKS = 10

DASK = "dask"  # the runner
DASK_SCHEDULER_HELP = (
    "dask: address of the scheduler, such as tcp://10.0.0.1:8786, or path of its scheduler file; "
    "default: a cluster on this machine, with --num_processes workers."
)
SKIP_BAD_FILES_HELP = (
    "Leave out, and count, input files that are damaged, not UTF-8 or of the wrong kind, instead "
    "of refusing them before the work begins."
)


class WorkerOptions(Protocol):
    """The options that say where work is done."""

    @property
    def num_processes(self) -> int: ...
    @property
    def runner(self) -> str | None: ...
    @property
    def dask_scheduler(self) -> str | None: ...


def start_workers(
    options: WorkerOptions,
    input_bytes: int,
    initializer: Callable[..., None] | None = None,
    initargs: tuple[Any, ...] = (),
) -> "Workers | DaskWorkers":
    """Start the workers that the options name, fewer processes for a small input.

    Raises:
        InputError: If Dask is not installed or its cluster cannot be reached.
    """
    if options.runner == DASK:
        processes = process_count(options.num_processes)
        return DaskWorkers(options.dask_scheduler, processes, initializer, initargs)
    return Workers(process_count(options.num_processes, input_bytes), initializer, initargs)


class _Setup(NamedTuple):
    """What a worker process does before its first call of a run."""

    run: str
    initializer: Callable[..., None] | None
    initargs: tuple[Any, ...]


class DaskWorkers:
    """The workers of a Dask cluster, with `initializer` and `initargs` of `parallel.Workers`.

    Args:
        scheduler: address of the scheduler, such as `tcp://10.0.0.1:8786`, or path of its scheduler
            file; None to start a cluster on this machine.
        processes: number of workers of that cluster.

    Raises:
        InputError: If there is no scheduler at the address, or if no worker connects to it.
    """

    def __init__(
        self,
        scheduler: str | None,
        processes: int,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
    ):
        try:
            import distributed  # noqa: F401  # sets the levels of its loggers
        except ImportError:
            raise InputError(
                "`runner`=dask: Dask is not installed; pip install 'albert-tf[dask]'"
            ) from None
        self._resources = contextlib.ExitStack()
        # Lost connections are reported here.
        for name in ("distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with contextlib.ExitStack() as stack:
            self._client = stack.enter_context(_connect(scheduler, processes, stack))
            self._address = self._client.scheduler.address
            self._wait_for_workers()
            # A task, since results that are lost with a worker are computed again.
            setup = _Setup(uuid.uuid4().hex, initializer, initargs)
            self._setup = self._client.submit(_Setup, *setup, pure=False)
            self._resources = stack.pop_all()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield `function(item)` for every item, as `parallel.Workers.map` does.

        Raises:
            ChildProcessError: If the scheduler is lost, or workers are lost again and again.
        """
        waiting: deque[distributed.Future] = deque()
        for item in items:
            with self._losses_reported():
                waiting.append(self._client.submit(_call, self._setup, function, item, pure=False))
                workers = max(1, len(self._client.nthreads()))
            if len(waiting) >= (1 + QUEUED_PER_PROCESS) * workers:
                yield self._result(waiting.popleft())
        while waiting:
            yield self._result(waiting.popleft())

    def _result(self, future: "distributed.Future") -> Any:
        import distributed

        warned = False
        with self._losses_reported():
            while True:
                try:
                    return future.result(_SECONDS_BETWEEN_CHECKS)
                except distributed.KilledWorker:
                    raise
                except Exception as error:
                    if future.status == "error":
                        raise _CallError(error) from None
                    if not isinstance(error, TimeoutError):
                        raise
                if not warned and not self._client.nthreads():
                    logger.warning("no worker is left at %s; waiting for one", self._address)
                    warned = True

    @contextlib.contextmanager
    def _losses_reported(self) -> Iterator[None]:
        """Report the loss of the scheduler and of workers; errors of calls are passed on."""
        import distributed

        try:
            yield
        except _CallError as error:
            raise error.original from None
        except distributed.KilledWorker:
            raise ChildProcessError(
                "several Dask workers were lost in succession during the same work, possibly for "
                "lack of memory; rerun the same command to resume, with more memory per worker"
            ) from None
        except (OSError, distributed.client.FutureCancelledError) as error:
            raise ChildProcessError(
                f"lost the Dask scheduler at {self._address} ({type(error).__name__}); rerun the "
                "same command to resume"
            ) from None

    def _wait_for_workers(self) -> None:
        try:
            if not self._client.nthreads():
                logger.info("waiting for workers at %s", self._address)
            self._client.wait_for_workers(1, timeout=_SECONDS_TO_FIRST_WORKER)
        except TimeoutError:
            raise InputError(
                f"`dask_scheduler`={self._address}: no worker connected to it within "
                f"{_SECONDS_TO_FIRST_WORKER} s"
            ) from None

    def __enter__(self) -> "DaskWorkers":
        return self

    def __exit__(self, *exception: object) -> None:
        self._resources.close()


class _CallError(Exception):
    def __init__(self, original: BaseException):
        super().__init__(str(original))
        self.original = original


def _connect(
    scheduler: str | None, processes: int, stack: contextlib.ExitStack
) -> "distributed.Client":
    import distributed

    if scheduler is None:
        cluster = distributed.LocalCluster(
            n_workers=processes, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        )
        return distributed.Client(stack.enter_context(cluster), set_as_default=False)
    is_file = scheduler.endswith(".json")
    if is_file and not os.path.exists(scheduler):
        raise InputError(f"`dask_scheduler`={scheduler}: no such scheduler file")
    place = {"scheduler_file" if is_file else "address": scheduler}
    try:
        return distributed.Client(**place, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError):
        raise InputError(
            f"`dask_scheduler`={scheduler}: no Dask scheduler answers there; give the address that "
            "it printed when it started, such as tcp://10.0.0.1:8786, or its scheduler file"
        ) from None


_lock = threading.Lock()  # the calls of a run share state; a worker may have several threads
_current_run = ""


def _call(setup: _Setup, function: Callable[[Item], Result], item: Item) -> Result:
    global _current_run
    with _lock:
        if setup.initializer and _current_run != setup.run:
            setup.initializer(*setup.initargs)
            _current_run = setup.run
        return function(item)

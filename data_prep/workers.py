"""Where the work of a command is done: processes of this machine, or a Dask cluster."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from data_prep.parallel import Item, Result, Workers, process_count

DASK = "dask"  # the runner
DASK_SCHEDULER_HELP = (
    "dask: address of the scheduler, such as tcp://10.0.0.1:8786, or path of its scheduler file; "
    "default: a cluster on this machine, with --num_processes workers."
)
SKIP_BAD_FILES_HELP = (
    "Leave out, and count, input files that are damaged, not UTF-8 or of the wrong kind, instead "
    "of refusing them before the work begins."
)


class AnyWorkers(Protocol):
    """Workers of any kind; used in a `with` block."""

    def map(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]: ...
    def __enter__(self) -> "AnyWorkers": ...
    def __exit__(self, *exception: object) -> None: ...


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
    initializer: Callable[..., None],
    initargs: tuple[Any, ...],
) -> AnyWorkers:
    """Start the workers that the options name, as `parallel.Workers` does.

    Args:
        input_bytes: size of the input; a small input gets fewer processes.

    Raises:
        InputError: If Dask is not installed or its cluster cannot be reached.
    """
    if options.runner == DASK:
        from data_prep.dask_workers import DaskWorkers

        processes = process_count(options.num_processes)
        return DaskWorkers(options.dask_scheduler, processes, initializer, initargs)
    return Workers(process_count(options.num_processes, input_bytes), initializer, initargs)

"""The stages of a run, in each of which training batches have one size (`--batch_size_warmup`).

The order of the examples is that of `train_batch_size`. A stage divides each batch of this order
into smaller ones (`RecordStream.parts`), and begins with a whole one: what the stage before it has
left of its last one is skipped. So what a step reads is a function of its number alone, and no
example is read twice in an epoch.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.input.streams import ENDLESS


class Stage(NamedTuple):
    """Steps with batches of one size, those up to step `end`.

    `parts` of these make a batch of `train_batch_size`; in their stream, the one that follows a
    step has the number of this step plus `offset`.
    """

    batch_size: int
    end: int
    parts: int
    offset: int


def find_stages(
    warmup: Sequence[str], train_batch_size: int, num_train_steps: int
) -> tuple[Stage, ...]:
    """Return the stages of a run, of which those before the last are given as `SIZE:STEP`.

    Raises:
        InputError: If sizes or steps are invalid, or a stage begins after `num_train_steps`.
    """
    stages: list[Stage] = []
    begin = size = whole = 0  # `whole` batches of `train_batch_size` are before `begin`
    for text in warmup:
        given, before = f"`batch_size_warmup`={text}", size
        if not (found := re.fullmatch("([1-9][0-9]{0,17}):([1-9][0-9]{0,17})", text)):
            raise InputError(f"{given}: must be SIZE:STEP, such as 256:10000")
        size, end = map(int, found.groups())
        parts = train_batch_size // size
        if size * parts != train_batch_size or not (before < size and begin < end and parts > 1):
            raise InputError(
                f"{given}: sizes and steps must grow, and sizes be divisors of "
                f"`train_batch_size`={train_batch_size} below it"
            )
        if begin > num_train_steps:
            raise InputError(
                f"{given}: begins at step {begin}, after `num_train_steps`={num_train_steps}"
            )
        stages.append(Stage(size, end, parts, whole * parts - begin))
        whole -= (begin - end) // parts  # rounded up
        begin = end
    return (*stages, Stage(train_batch_size, ENDLESS, 1, whole - begin))

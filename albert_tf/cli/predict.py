"""Predicts from the shell: classifies, tags, answers, chooses, fills masks or computes vectors.

    albert-predict --model=out --text="a text"
    albert-predict --model=out --input_file=texts.tsv --output_file=predictions.jsonl

The head of the model decides which of these it does, unless --task does.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from albert_tf.engines.registry import installed_engine, select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import
from albert_tf.errors import InputError
from albert_tf.files import check_outputs
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM
from albert_tf.logs import counted
from albert_tf.options import command
from albert_tf.prediction.rows import (
    InputRow,
    check_output,
    columns_of,
    error_of_row,
    example_rows,
    is_table,
    read_chunks,
    row_writer,
)
from albert_tf.prediction.tasks import (
    PREDICTION_TASKS,
    Columns,
    PredictOptions,
    Results,
    exported_task,
    load_export,
    load_model,
    rounded,
)
from albert_tf.terminal import ProgressLine


def run(options: PredictOptions) -> None:
    """Predict every row of the input, and write a row of results for each.

    Raises:
        InputError: If a flag, the model or a row is invalid. Rows before it are written to standard
            output, but no incomplete file appears.
    """
    is_table(options.input_file)
    check_output(options.output_file)
    outputs = [path for path in [options.output_file] if path != STANDARD_STREAM]
    check_outputs({"output_file": outputs}, {"input_file": [options.input_file]})
    select_engine(options.engine or os.environ.get("KERAS_BACKEND") or installed_engine())
    # Messages must not mix with results on standard output.
    with contextlib.redirect_stdout(sys.stderr):
        task, predict = _predictor(options)
        _predict_all(task, predict, options)


def _predictor(options: PredictOptions) -> tuple[str, Callable[[Columns], Results]]:
    """Return the task, and the function that predicts columns of texts."""
    with quiet_import():
        load_keras()
    exported = exported_task(options.model)
    if exported and options.task in ("auto", exported):
        return exported, load_export(exported, options)
    return load_model(options)


def _predict_all(task: str, predict: Callable[[Columns], Results], options: PredictOptions) -> None:
    start, count = time.monotonic(), 0
    progress = ProgressLine()
    is_stream = options.input_file == STANDARD_STREAM
    shows_progress = not is_stream and options.input_file is not None
    with row_writer(options.output_file) as writer:
        no_error = {"error": ""} if is_stream and writer.has_columns else {}

        def answered(rows: list[InputRow]) -> list[dict[str, Any]]:
            good = [row for row in rows if row.error is None]
            try:
                columns = columns_of(good, PREDICTION_TASKS[task], options)
                results = iter(predict(columns) if good else [])
                return [
                    {"error": row.error}
                    if row.error
                    else _joined(row, rounded(next(results)) | no_error)
                    for row in rows
                ]
            except InputError as error:
                named = error_of_row(error, good)
                if is_stream and len(rows) > 1:  # which row it is, each alone shows
                    return [answer for row in rows for answer in answered([row])]
                # That of a flag would be the error of every row.
                if is_stream and str(named).startswith(rows[0].location):
                    return [{"error": str(named)}]
                raise named from None

        for rows in read_chunks(options, PREDICTION_TASKS[task]):
            writer.write(answered(rows))
            count += len(rows)
            if shows_progress:
                rate = count / (time.monotonic() - start)
                progress.update(f"{counted(count, 'row')} predicted", f"{rate:,.1f} a second")
        if writer.has_columns and not writer.columns:  # of an input without rows: of an example
            for row in example_rows(options, PREDICTION_TASKS[task]):
                columns = columns_of([row], PREDICTION_TASKS[task], options)
                with contextlib.suppress(InputError):
                    writer.write_columns([_joined(row, rounded(predict(columns)[0]) | no_error)])
    if shows_progress:
        if not count:
            progress.update("0 rows predicted")
        progress.close()


def _joined(row: InputRow, result: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of the input, then those of the results."""
    if twice := row.values.keys() & result.keys():
        raise InputError(
            f"{row.location}: column {min(twice)!r} has the name of a result; rename it"
        )
    return {**row.values, **result}


main = command(PredictOptions, run, keeps_memory=True)

if __name__ == "__main__":
    main()

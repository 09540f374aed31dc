"""Fine-tunes ALBERT to choose the answer to a question about a text (RACE, C3).

    albert-race --task_name=json --train_file=train.jsonl --eval_file=dev.jsonl \\
        --init_checkpoint=albert/albert-base-v2 --output_dir=out
"""

from typing import TYPE_CHECKING

from albert_tf.task_kinds import Head, TaskKind

if TYPE_CHECKING:  # at run time, `TaskKind` imports what is asked for
    from albert_tf.tasks.multiple_choice import export, options, task, text_model

KIND = TaskKind(
    package=__name__,
    options=lambda: options.MultipleChoiceOptions,
    task=lambda: task.MultipleChoiceTask,
    settings_file="multiple_choice.json",
    heads=(
        Head(
            name="choice",
            model="albert_tf.modeling.heads:AlbertForMultipleChoice",
            scopes=("classifier/",),
            huggingface="AlbertForMultipleChoice",
            huggingface_module="classifier",
        ),
    ),
    text_model=lambda: text_model.MultipleChoice,
    predict_task="choose",
    inputs={"question": str, "context": str, "options": list},
    export=lambda: export.MultipleChoiceExport,
    export_folder="choice",
)

main = KIND.main

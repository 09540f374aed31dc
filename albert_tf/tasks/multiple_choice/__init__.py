"""Multiple choice: the option that answers a question about a text (RACE, C3)."""

from albert_tf.task_kinds import Head, TaskKind

KIND = TaskKind(
    package=__name__,
    options="options:MultipleChoiceOptions",
    task="task:MultipleChoiceTask",
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
    text_model="text_model:MultipleChoice",
    predict_task="choose",
    inputs={"question": str, "context": str, "options": list},
    predict="predict:predict",
    export="export:MultipleChoiceExport",
    export_folder="choice",
    predict_exported="predict:predict_exported",
)

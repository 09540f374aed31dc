"""Fine-tunes ALBERT to classify texts or pairs: one label, several, or a number.

    albert-classify --do_train --do_eval --train_file=train.tsv --eval_file=dev.tsv \\
        --init_checkpoint=albert/albert-base-v2 --output_dir=out --max_seq_length=128
"""

from typing import TYPE_CHECKING

from albert_tf.task_kinds import Head, TaskKind

if TYPE_CHECKING:  # at run time, `TaskKind` imports what is asked for
    from albert_tf.tasks.classification import export, options, task, text_model


def _check_data(options):
    from albert_tf.tasks.classification.tables import find_dataset

    find_dataset(options)


KIND = TaskKind(
    package=__name__,
    options=lambda: options.ClassificationOptions,
    task=lambda: task.ClassificationTask,
    check_data=_check_data,
    settings_file="target.json",
    heads=(
        Head(
            name="classifier",
            model="albert_tf.modeling.heads:AlbertForSequenceClassification",
            scopes=("classifier/",),
            labeled=True,
            keras_group="classifier",
            huggingface="AlbertForSequenceClassification",
            huggingface_module="classifier",
            hub_task="text-classification",
            lite_outputs=("logits",),
        ),
    ),
    text_model=lambda: text_model.TextClassifier,
    predict_task="classify",
    inputs={"text": str, "text_pair": str},
    optional_inputs=("text_pair",),
    export=lambda: export.ClassificationExport,
    export_folder="classifier",
    problem_types={"multi_label": "multi_label_classification", "regression": "regression"},
)

main = KIND.main

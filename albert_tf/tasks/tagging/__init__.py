"""Fine-tunes ALBERT to tag words: named entities, chunks, parts of speech.

    albert-tag --do_train --do_eval --train_file=train.conll --eval_file=dev.conll \\
        --init_checkpoint=albert/albert-base-v2 --output_dir=out
"""

from typing import TYPE_CHECKING

from albert_tf.task_kinds import Head, TaskKind

if TYPE_CHECKING:  # at run time, `TaskKind` imports what is asked for
    from albert_tf.tasks.tagging import export, options, task, text_model

KIND = TaskKind(
    package=__name__,
    options=lambda: options.TaggingOptions,
    task=lambda: task.TaggingTask,
    settings_file="tagging.json",
    heads=(
        Head(
            name="tagger",
            model="albert_tf.modeling.heads:AlbertForTokenClassification",
            scopes=("token_classifier/",),
            optional=("bert/pooler/",),
            labeled=True,
            keras_group="layers/linear_head",
            huggingface="AlbertForTokenClassification",
            huggingface_module="classifier",
            hub_task="token-classification",
            lite_outputs=("logits",),
        ),
    ),
    text_model=lambda: text_model.TokenClassifier,
    predict_task="tag",
    inputs={"text": str},
    export=lambda: export.TaggingExport,
    export_folder="tagger",
)

main = KIND.main

"""Tags of words: named entities, chunks, parts of speech."""

from albert_tf.task_kinds import Head, TaskKind

KIND = TaskKind(
    package=__name__,
    options="options:TaggingOptions",
    task="task:TaggingTask",
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
    text_model="text_model:TokenClassifier",
    predict_task="tag",
    inputs={"text": str},
    predict="predict:predict",
    export="export:TaggingExport",
    export_folder="tagger",
    predict_exported="predict:predict_exported",
)

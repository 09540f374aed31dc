"""Classification of texts and pairs of texts: one label, several labels, or a number."""

from albert_tf.task_kinds import Head, TaskKind

KIND = TaskKind(
    package=__name__,
    options="options:ClassificationOptions",
    task="task:ClassificationTask",
    check_data="tables:find_dataset",
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
    text_model="text_model:TextClassifier",
    predict_task="classify",
    inputs={"text": str, "text_pair": str},
    optional_inputs=("text_pair",),
    predict="predict:predict",
    export="export:ClassificationExport",
    export_folder="classifier",
    predict_exported="predict:predict_exported",
)

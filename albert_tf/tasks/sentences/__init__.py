"""Sentence vectors: texts that belong together have similar ones."""

from albert_tf.task_kinds import Head, TaskKind

KIND = TaskKind(
    package=__name__,
    options="options:SentenceOptions",
    task="task:SentenceTask",
    check_data="readers:check_files",
    settings_file="sentences.json",
    heads=(
        Head(
            name="sentences",
            model="albert_tf.tasks.sentences.model:AlbertForSentences",
            optional=("bert/pooler/",),
            arguments=("pooling",),
            huggingface="AlbertModel",
            hub_task="sentence-similarity",
            hub_library="sentence-transformers",
        ),
    ),
    text_model="text_model:SentenceEncoder",
    predict_task="embed",
    inputs={"text": str, "text_pair": str},
    optional_inputs=("text_pair",),
    predict="predict:predict",
    predict_options=("pooling", "layer", "normalize", "max_length"),
    export="export:SentenceExport",
    export_folder="sentences",
    predict_exported="predict:predict_exported",
    huggingface_files="sentence_transformers:files_of",
)

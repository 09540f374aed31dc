"""Fine-tunes ALBERT to compute vectors, similar for texts that belong together.

    albert-sentences --do_train --do_eval --train_file=pairs.tsv --eval_file=dev.tsv \\
        --init_checkpoint=albert/albert-base-v2 --output_dir=out
"""

from typing import TYPE_CHECKING

from albert_tf.task_kinds import Head, TaskKind

if TYPE_CHECKING:  # at run time, `TaskKind` imports what is asked for
    from albert_tf.tasks.sentences import export, options, task, text_model


def _huggingface_files(path, config):
    from albert_tf.tasks.sentences.options import files_of

    return files_of(path, config)


KIND = TaskKind(
    package=__name__,
    options=lambda: options.SentenceOptions,
    task=lambda: task.SentenceTask,
    check_data=lambda given: given.check_files(),
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
    text_model=lambda: text_model.SentenceEncoder,
    predict_task="embed",
    inputs={"text": str, "text_pair": str},
    optional_inputs=("text_pair",),
    predict_options=("pooling", "layer", "normalize", "max_length"),
    export=lambda: export.SentenceExport,
    export_folder="sentences",
    huggingface_files=_huggingface_files,
)

main = KIND.main

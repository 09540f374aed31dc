"""Fine-tunes ALBERT to answer questions about a text by parts of it, or not at all.

    albert-squad --do_train --do_eval --task_name=squad_v2 --max_seq_length=384 \\
        --init_checkpoint=albert/albert-base-v2 --output_dir=out
"""

from typing import TYPE_CHECKING

from albert_tf.task_kinds import Head, TaskKind

if TYPE_CHECKING:  # at run time, `TaskKind` imports what is asked for
    from albert_tf.tasks.question_answering import export, options, task, text_model

KIND = TaskKind(
    package=__name__,
    options=lambda: options.QuestionAnsweringOptions,
    task=lambda: task.QuestionAnsweringTask,
    settings_file="question_answering.json",
    heads=(
        Head(
            name="span",
            settings={"squad_head": "span"},
            model="albert_tf.modeling.question_answering:AlbertForQuestionAnswering",
            scopes=("cls/squad/",),
            optional=("bert/pooler/",),
            keras_group="layers/span_head",
            huggingface="AlbertForQuestionAnswering",
            huggingface_module="qa_outputs",
            hub_task="question-answering",
            lite_outputs=("start_logits", "end_logits"),
        ),
        Head(
            name="conditional_span",
            settings={"squad_head": "conditional"},
            model="albert_tf.modeling.question_answering:AlbertForConditionalQuestionAnswering",
            scopes=("start_logits/", "end_logits/", "answer_class/"),
            optional=("bert/pooler/",),
            arguments=("start_n_top", "end_n_top"),
            keras_group="answer_class",
            hub_task="question-answering",
        ),
    ),
    text_model=lambda: text_model.QuestionAnswerer,
    predict_task="answer",
    inputs={"question": str, "context": str},
    export=lambda: export.QuestionAnsweringExport,
    export_folder="squad",
    kept_results=("null_score_diff_threshold",),
)

main = KIND.main

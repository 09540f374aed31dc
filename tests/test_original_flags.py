"""Every flag of the original's programs works, or the error says what replaces it."""

import pytest
from absl import flags

from albert_tf import original_flags
from albert_tf.export.export_options import ExportOptions
from albert_tf.options import define_flags
from albert_tf.original_flags import ReplacedFlag, define_original_flags
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.training.options import PretrainingOptions
from data_prep.pretraining_data_options import PretrainingDataOptions
from tests.conftest import run_commands

_TPU = "use_tpu tpu_name tpu_zone gcp_project master num_tpu_cores"
_SQUAD = (
    "albert_config_file vocab_file spm_model_file output_dir train_file predict_file "
    "train_feature_file predict_feature_file predict_feature_left_file init_checkpoint "
    "albert_hub_module_handle do_lower_case max_seq_length doc_stride max_query_length do_train "
    "do_predict train_batch_size predict_batch_size learning_rate num_train_epochs "
    "warmup_proportion save_checkpoints_steps iterations_per_loop n_best_size max_answer_length "
    f"{_TPU}"
)

# Program -> its flags in any published version, and the command here.
PROGRAMS = {
    "run_pretraining": (
        "albert_config_file input_file output_dir init_checkpoint max_seq_length "
        "max_predictions_per_seq do_train do_eval train_batch_size eval_batch_size optimizer "
        "learning_rate poly_power num_train_steps num_warmup_steps start_warmup_step "
        "save_checkpoints_steps keep_checkpoint_max iterations_per_loop max_eval_steps "
        f"init_from_group0 masked_lm_budget export_dir {_TPU}",
        PretrainingOptions,
        original_flags.PRETRAINING,
    ),
    "run_classifier": (
        "data_dir albert_config_file task_name vocab_file spm_model_file output_dir cached_dir "
        "init_checkpoint albert_hub_module_handle do_lower_case max_seq_length do_train do_eval "
        "do_predict train_batch_size eval_batch_size predict_batch_size learning_rate train_step "
        "warmup_step save_checkpoints_steps keep_checkpoint_max iterations_per_loop optimizer "
        f"export_dir threshold_to_export use_pooled_output {_TPU}",
        ClassificationOptions,
        original_flags.CLASSIFIER,
    ),
    "run_squad_v1": (
        f"{_SQUAD} use_einsum export_dir verbose_logging",
        QuestionAnsweringOptions,
        original_flags.SQUAD,
    ),
    "run_squad_v2": (
        f"{_SQUAD} start_n_top end_n_top dropout_prob",
        QuestionAnsweringOptions,
        original_flags.SQUAD,
    ),
    "run_race": (
        "data_dir albert_config_file task_name vocab_file train_file eval_file predict_file "
        "spm_model_file output_dir init_checkpoint albert_hub_module_handle do_lower_case "
        "dropout_prob max_seq_length max_qa_length num_keep_checkpoint high_only middle_only "
        "do_train do_eval do_predict train_batch_size eval_batch_size predict_batch_size "
        f"learning_rate train_step warmup_step save_checkpoints_steps iterations_per_loop {_TPU}",
        MultipleChoiceOptions,
        {},
    ),
    "create_pretraining_data": (
        "input_file output_file vocab_file spm_model_file input_file_mode do_lower_case "
        "do_whole_word_mask do_permutation favor_shorter_ngram random_next_sentence max_seq_length "
        "ngram max_predictions_per_seq random_seed dupe_factor masked_lm_prob short_seq_prob "
        "parallel",
        PretrainingDataOptions,
        original_flags.PRETRAINING_DATA,
    ),
    "export_checkpoints and export_to_tfhub": (
        "albert_directory checkpoint_name do_lower_case use_einsum export_path",
        ExportOptions,
        original_flags.EXPORT,
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_flag_of_the_original_is_known(program):
    names, options_class, original = PROGRAMS[program]
    values = flags.FlagValues()
    define_flags(options_class, values)
    define_original_flags(original, values)
    assert set(names.split()) <= set(values)
    assert set(original) <= set(names.split()) | set(original_flags.SQUAD)


@pytest.mark.parametrize(
    ("original", "arguments", "replacement"),
    [
        (original_flags.CLASSIFIER, ["--export_dir=x/y"], "--export_path=x/y"),
        (original_flags.CLASSIFIER, ["--threshold_to_export=0.3"], "compare them with 0.3"),
        (original_flags.CLASSIFIER, ["--nouse_pooled_output"], "always uses the pooled output"),
        (original_flags.SQUAD, ["--export_dir", "x"], "--export_path=x`; --tflite_lengths=384"),
        (original_flags.PRETRAINING, ["--masked_lm_budget=0.5"], "--masking=dynamic"),
        (original_flags.PRETRAINING_DATA, ["--input_file_mode=w"], "read as UTF-8 text"),
        (original_flags.PRETRAINING_DATA, ["--parallel"], "--num_processes"),
        (original_flags.EXPORT, ["--albert_directory=a"], "--init_checkpoint=a/model.ckpt-best"),
        (original_flags.EXPORT, ["--checkpoint_name=c"], "--init_checkpoint=FOLDER/c"),
    ],
)
def test_what_replaces_a_flag_is_named(original, arguments, replacement):
    values = flags.FlagValues()
    define_original_flags(original, values)
    with pytest.raises(ReplacedFlag) as error:
        values(["program", *arguments])
    assert replacement in str(error.value)
    assert str(error.value).startswith(arguments[0].partition("=")[0].replace("--no", "--"))


def test_values_that_change_nothing_are_accepted():
    for original, arguments in (
        (original_flags.CLASSIFIER, ["--export_dir=", "--threshold_to_export=nan"]),
        (original_flags.CLASSIFIER, ["--use_pooled_output", "--export_dir", ""]),
        (original_flags.SQUAD, ["--use_einsum=false", "--verbose_logging"]),
        (original_flags.SQUAD, ["--nouse_einsum"]),
        (original_flags.PRETRAINING, ["--masked_lm_budget=0"]),
        (original_flags.PRETRAINING_DATA, ["--input_file_mode=rb", "--noparallel"]),
        (original_flags.EXPORT, ["--use_einsum"]),
    ):
        values = flags.FlagValues()
        define_original_flags(original, values)
        assert values(["program", *arguments]) == ["program"]


@pytest.mark.integration
def test_commands_refuse_in_one_line_even_without_required_flags(tmp_path):
    path = tmp_path / "flags.cfg"
    path.write_text("--export_dir=x\n")
    cases = {
        ("run_classifier.py", f"--flagfile={path}"): "--export_dir=x: exporting is a program",
        ("data_prep/create_pretraining_data.py", "--parallel=1"): "--parallel=1: --num_processes",
        ("export_saved_model.py", "--albert_directory=x"): "--albert_directory=x: weights are",
    }
    done = run_commands([*map(list, cases)], tmp_path)
    assert done.stdout.split() == ["1"] * len(cases), done.stderr
    for number, ((program, _), message) in enumerate(cases.items()):
        (line,) = (tmp_path / f"{number}.err").read_text().splitlines()
        assert line.startswith(f"{program.split('/')[-1]}: error: {message}")
        assert (tmp_path / f"{number}.out").read_text() == ""

"""The parts of the suite, by name; each is a module with `run(suite) -> Result`."""

PARTS = (
    *("pretraining_step", "finetuning_and_inference", "scaling", "text_to_records"),
    *("records_to_batches", "startup", "pretraining_on_gpu"),
)

"""The parts of the suite, by name; each is a module with `run(suite) -> Result`."""

# Name of the module and of the result -> what it measures.
PARTS = {
    "pretraining_step": "a pretraining step at three sizes, compared with other libraries",
    "finetuning_and_inference": "a classifier's training and inference, next to other libraries",
    "scaling": "time and memory by batch size, length, depth and width",
    "text_to_records": "text to TFRecords, compared with SentencePiece alone",
    "records_to_batches": "TFRecords to batches, on one and two cores",
    "startup": "start-up time: imports, --help, the first step, compilation, exports",
}

"""Fine-tunes ALBERT to tag words; the same command as run_tagger.py."""

from albert_tf.finetuning.command import fine_tuning_command
from albert_tf.tasks.tagging import KIND

main = fine_tuning_command(KIND)

if __name__ == "__main__":
    main()

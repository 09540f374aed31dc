"""Fine-tunes ALBERT to compute sentence vectors; the same command as run_sentences.py."""

from albert_tf.finetuning.command import fine_tuning_command
from albert_tf.tasks.sentences import KIND

main = fine_tuning_command(KIND)

if __name__ == "__main__":
    main()

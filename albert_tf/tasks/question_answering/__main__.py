"""Fine-tunes ALBERT to answer questions on texts; the same command as run_squad.py."""

from albert_tf.finetuning.command import fine_tuning_command
from albert_tf.tasks.question_answering import KIND

main = fine_tuning_command(KIND)

if __name__ == "__main__":
    main()

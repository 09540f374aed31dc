"""Fine-tunes ALBERT on multiple choice; the same command as run_race.py."""

from albert_tf.finetuning.command import fine_tuning_command
from albert_tf.tasks.multiple_choice import KIND

main = fine_tuning_command(KIND)

if __name__ == "__main__":
    main()

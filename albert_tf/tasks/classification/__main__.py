"""Fine-tunes ALBERT to classify text; the same command as run_classifier.py."""

from albert_tf.finetuning.command import fine_tuning_command
from albert_tf.tasks.classification import KIND

main = fine_tuning_command(KIND)

if __name__ == "__main__":
    main()

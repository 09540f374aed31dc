"""Fine-tunes ALBERT to classify text: `python run_classifier.py --help` lists the flags."""

from albert_tf.finetuning.command import fine_tuning_command
from albert_tf.tasks.classification import KIND

main = fine_tuning_command(KIND)

if __name__ == "__main__":
    main()

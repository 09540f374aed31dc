"""Fine-tunes ALBERT to tag words: `python run_tagger.py --help` lists the flags."""

from albert_tf.finetuning.command import fine_tuning_command
from albert_tf.tasks.tagging import KIND

main = fine_tuning_command(KIND)

if __name__ == "__main__":
    main()

"""Options of the fine-tuning programs whose models may learn from a teacher; loads no framework."""

import dataclasses

from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaughtOptions(FineTuningOptions):
    """Options of programs that train on classes, which a teacher may predict, too."""

    teacher: str | None = option(
        None,
        "Trained model whose probabilities are learned, besides labels: a training folder of this "
        "program, a folder of Hugging Face or a name on its Hub. Training rows may then lack "
        "labels.",
        group="Training",
        path="weights",
    )
    teacher_temperature: float = option(
        2.0, "Divides the logits of teacher and student in the teacher's part of the loss.", above=0
    )
    teacher_weight: float = option(
        0.5,
        "Weight of the teacher's part of the loss; that of the labels is 1 minus this.",
        minimum=0,
        maximum=1,
    )

    @property
    def taught(self) -> bool:
        """Whether training learns from a teacher, so that rows may lack labels."""
        return bool(self.teacher and self.do_train)

    def input_files(self) -> dict[str, str | None]:
        """As of the base class."""
        return super().input_files() | ({"teacher": self.teacher} if self.taught else {})

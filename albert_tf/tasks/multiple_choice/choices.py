"""Multiple-choice questions, their choices and answers."""

import re
import string
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError

LETTERS = string.ascii_uppercase

# Any run of underscores is one blank in RACE, where they mean nothing else; elsewhere they may be
# part of a name unless they touch no letter or digit.
RACE_BLANK = re.compile("[_\uff3f]+")
BLANK = re.compile("(?<![\\w\uff3f])[_\uff3f]+(?![\\w\uff3f])")


class ChoiceQuestion(NamedTuple):
    """A question about a context, and its choices.

    Attributes:
        location: "file:line", for errors.
        id: identifies its prediction.
        group: results are also reported per group, such as "middle"; "" for none.
        context: text that the question is about; may be empty.
        question: may be empty, or contain blanks that the choices fill.
        choices: at least two.
        answer: index of the correct choice; None if unknown.
        blank: matches the blanks of the question.
    """

    location: str
    id: str
    group: str
    context: str
    question: str
    choices: tuple[str, ...]
    answer: int | None
    blank: re.Pattern[str] = BLANK

    @property
    def candidates(self) -> tuple[str, ...]:
        """Question and choice as one text, per choice."""
        return tuple(fill(self.question, choice, self.blank) for choice in self.choices)


def fill(question: str, choice: str, blank: re.Pattern[str] = BLANK) -> str:
    """Return a question and one of its choices as one text.

    The choice fills every blank of the question; without a blank it follows the question.
    """
    choice = choice.strip()
    filled, blanks = blank.subn(lambda _: choice, question)
    return filled if blanks else f"{question} {choice}".strip()


def checked_choices(location: str, value: Any, name: str, empty: bool = False) -> tuple[str, ...]:
    """Return the choices of a question, which a field contains; some data sets have empty ones.

    Raises:
        InputError: If they are not 2 to 26 texts.
    """
    if not isinstance(value, list) or not all(isinstance(choice, str) for choice in value):
        raise InputError(f"{location}: {name!r} must be a list of texts, not {files.shown(value)}")
    if not 2 <= len(value) <= len(LETTERS):
        raise InputError(
            f"{location}: {len(value)} choices; a question must have 2 to {len(LETTERS)}"
        )
    if not empty and not all(choice.strip() for choice in value):
        raise InputError(f"{location}: a choice is empty in {files.shown(value)}")
    return tuple(value)


def letter_number(location: str, answer: Any, choices: tuple[str, ...]) -> int:
    """Return the index of an answer given by letter."""
    letters = LETTERS[: len(choices)]
    if not isinstance(answer, str) or len(answer) != 1 or answer not in letters:
        raise InputError(
            f"{location}: answer {files.shown(answer)} must be a letter from A to {letters[-1]}"
        )
    return letters.index(answer)


def answer_number(location: str, answer: Any, choices: tuple[str, ...]) -> int:
    """Return the index of an answer given by number (from 0), text or letter."""
    if isinstance(answer, int) and not isinstance(answer, bool):
        if not 0 <= answer < len(choices):
            raise InputError(
                f"{location}: answer {answer} must be 0 to {len(choices) - 1}, the numbers of "
                f"{len(choices)} choices"
            )
        return answer
    texts = [choice.strip() for choice in choices]
    if isinstance(answer, str):
        found = [number for number, text in enumerate(texts) if text == answer.strip()]
        if len(found) > 1:
            raise InputError(
                f"{location}: answer {files.shown(answer)} matches {len(found)} choices"
            )
        if found:
            return found[0]
        letter = answer.strip()
        if len(letter) == 1 and letter in LETTERS[: len(choices)]:
            return LETTERS.index(letter)
    raise InputError(
        f"{location}: answer {files.shown(answer)} must be the number of a choice (from 0), its "
        f"letter (A to {LETTERS[len(choices) - 1]}) or its text"
    )

"""The files that list the checkpoints of a folder: `checkpoint` and `checkpoints.json`."""

from __future__ import annotations

import dataclasses
import json
import os
import re

from albert_tf.files import parse_json

NAME = "model.ckpt"

_CHECKPOINT = re.compile(rf"{re.escape(NAME)}-([0-9]{{1,18}})")
# A line of the file `checkpoint`: a protocol buffer in its text form.
_FIELD = re.compile(r'^(\w+): (?:"((?:[^"\\\n]|\\.)*)"|(\d+(?:\.\d+)?(?:e\+?\d+)?))$', re.M)
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)")


def step_of(path: str) -> int | None:
    """Return the step in the name of a checkpoint; None if it is not such a name."""
    found = _CHECKPOINT.fullmatch(os.path.basename(path))
    return int(found[1]) if found else None


@dataclasses.dataclass(frozen=True)
class CheckpointList:
    """Content of `checkpoint` or `checkpoints.json`.

    Attributes:
        latest: name of the checkpoint to resume from.
        saved: name -> time in seconds, oldest first, of checkpoints that newer ones replace.
        last_kept: time of the last checkpoint that stays for good.
        engine: that wrote the checkpoints, in `checkpoints.json`.
    """

    latest: str
    saved: dict[str, float] = dataclasses.field(default_factory=dict)
    last_kept: float = 0.0
    engine: str = "jax"

    def add(
        self, name: str, time: float, keep: int, keep_every_n_hours: float
    ) -> tuple[CheckpointList, list[str]]:
        """Return the list with a new latest checkpoint, and the names of those to remove.

        What is to be removed stays listed, so that a run that is killed before it has done so
        does it after its next save; see `without`.

        Args:
            name: of the new checkpoint.
            time: at which it was saved, in seconds.
            keep: number of latest checkpoints to keep.
            keep_every_n_hours: of older ones, one per this many hours stays for good; 0 for none.
        """
        saved = {other: when for other, when in self.saved.items() if other != name}
        saved[name] = time
        last_kept, obsolete = self.last_kept or time, []
        for other in list(saved)[:-keep]:
            if keep_every_n_hours and saved[other] - last_kept >= 3600 * keep_every_n_hours:
                last_kept = saved.pop(other)
            else:
                obsolete.append(other)
        return dataclasses.replace(self, latest=name, saved=saved, last_kept=last_kept), obsolete

    def without(self, names: list[str]) -> CheckpointList:
        """Return the list without checkpoints that were removed."""
        saved = {name: when for name, when in self.saved.items() if name not in names}
        return dataclasses.replace(self, saved=saved)

    @classmethod
    def from_text(cls, text: str) -> CheckpointList | None:
        """Return the content of `checkpoint`; None if it is damaged."""
        fields: dict[str, list[str]] = {}
        for name, quoted, number in _FIELD.findall(text):
            fields.setdefault(name, []).append(number or _unescaped(quoted))
        if not (latest := fields.get("model_checkpoint_path", [""])[0]):
            return None
        times = fields.get("all_model_checkpoint_timestamps", [])
        # Only a run lists times; what was listed otherwise is never removed.
        saved = zip(fields.get("all_model_checkpoint_paths", []), map(float, times), strict=False)
        return cls(
            latest,
            {name: time for name, time in saved if _is_name(name)},
            float(fields.get("last_preserved_timestamp", ["0"])[0]),
        )

    def to_text(self) -> str:
        """Return the content of `checkpoint`."""
        lines = [f'model_checkpoint_path: "{self.latest}"']
        names = self.saved or [self.latest]
        lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
        times = self.saved.values()
        lines += [f"all_model_checkpoint_timestamps: {time!r}" for time in times]
        if self.last_kept:
            lines.append(f"last_preserved_timestamp: {self.last_kept!r}")
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def from_json(cls, text: str, source: str) -> CheckpointList | None:
        """Return the content of `checkpoints.json`; None or InputError if it is damaged."""
        found = parse_json(text, source, cls)
        # The list decides what is removed: names that are not of checkpoints come from damage.
        return found if all(map(_is_name, (found.latest, *found.saved))) else None

    def to_json(self) -> str:
        """Return the content of `checkpoints.json`."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


def _unescaped(text: str) -> str:
    """Return a string of a protocol buffer, in whose text form bytes may be octal numbers."""
    raw = _ESCAPED.sub(
        lambda found: bytes([int(found[1], 8) % 256]) if len(found[1]) == 3 else found[1],
        text.encode(),
    )
    return raw.decode(errors="replace")


def _is_name(name: str) -> bool:
    return step_of(name) is not None and "/" not in name

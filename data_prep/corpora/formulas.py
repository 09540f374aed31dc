r"""Simple formulas as plain text: `x_1 \le \alpha` -> "x₁ ≤ α"."""

import re
from collections.abc import Callable

from data_prep.corpora.templates.functions import subscript, superscript

_MAX_CHARACTERS = 60

# Spacing and styles are dropped; commands that stand for a character or a word are replaced.
_IGNORED = re.compile(
    r"\\(?:[,;:! ]|(?:q?quad|left|right|[bB]ig[lr]?|displaystyle|textstyle|limits)(?![A-Za-z]))"
)
_STYLED = re.compile(
    r"\\(?:math(?:rm|bf|it|sf|cal|bb|frak)|text(?:rm|bf|it)?|operatorname)\s*\{([^{}\\]*)\}"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}\\/]*)\}\s*\{([^{}\\/]*)\}")
_POWER = re.compile(r"\^\s*(?:\{([^{}\\^_]*)\}|([\w+-]))")
_INDEX = re.compile(r"_\s*(?:\{([^{}\\^_]*)\}|(\w))")
_GROUP = re.compile(r"(?<![\\^_])\{([^{}]*)\}")
_COMMAND = re.compile(r"\\([A-Za-z]+|[%$&#{}|])")
_SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε",
    "zeta": "ζ", "eta": "η", "theta": "θ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ",
    "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ", "tau": "τ", "upsilon": "υ",
    "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ",
    "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ",
    "Omega": "Ω", "cdot": "·", "times": "×", "pm": "±", "div": "÷", "le": "≤", "leq": "≤",
    "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "equiv": "≡", "infty": "∞",
    "ldots": "...", "dots": "...", "dotsc": "...", "cdots": "...", "dotsb": "...", "in": "∈",
    "to": "→", "rightarrow": "→", "mapsto": "↦", "subset": "⊂", "cup": "∪", "cap": "∩",
    "circ": "∘", "prime": "′", "partial": "∂", "nabla": "∇", "ell": "ℓ", "hbar": "ħ",
    "sin": "sin", "cos": "cos", "tan": "tan", "log": "log", "ln": "ln", "exp": "exp",
    "min": "min", "max": "max", "lim": "lim", "det": "det", "%": "%", "$": "$", "&": "&",
    "#": "#", "|": "‖",
}  # fmt: skip


def formula_text(tex: str) -> str:
    """Return a formula as part of a sentence; "" if it does not fit on a short line."""
    text = " ".join(tex.replace("~", " ").split())
    text = text.replace("\\{", "\x01").replace("\\}", "\x02")  # visible braces
    text = _STYLED.sub(r"\1", _IGNORED.sub(" ", text))
    text = _COMMAND.sub(lambda found: _SYMBOLS.get(found[1], found[0]), text)
    text = _POWER.sub(lambda found: _script(found, superscript), text)
    text = _INDEX.sub(lambda found: _script(found, subscript), text)
    text = _FRACTION.sub(lambda found: f"{_grouped(found[1])}/{_grouped(found[2])}", text)
    text = _GROUP.sub(r"\1", text)
    if len(text) > _MAX_CHARACTERS or re.search(r"[\\{}]", text):
        return ""
    return " ".join(text.replace("\x01", "{").replace("\x02", "}").split())


def _script(found: re.Match, move: Callable[[str], str]) -> str:
    """Return a superscript or subscript; keep its mark if Unicode has no characters for it."""
    text = (found[1] or found[2] or "").strip()
    moved = move(text)
    if moved != text:
        return moved
    return found[0][0] + (text if len(text) == 1 else f"{{{text}}}")


def _grouped(text: str) -> str:
    return text if re.fullmatch(r"\w*", text.strip()) else f"({text.strip()})"

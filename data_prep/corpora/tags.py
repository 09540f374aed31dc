"""HTML and extension tags of wiki text: formulas, what hides its content, and what is not closed.

MediaWiki shows the text after an extension tag that is never closed, and repairs HTML tags. Here,
too, an element ends at its own closing tag or not at all: one that begins again before it is closed
was not closed the first time, so that little text is hidden by a mistake.
"""

import re
from collections.abc import Callable

from data_prep.corpora.templates.expansion import GAP
from data_prep.corpora.templates.functions import chemical_formula, subscript, superscript

# Stand for visible characters that are not markup: entities and the content of `<nowiki>`. XML
# cannot contain them, and they are not white space.
VISIBLE = str.maketrans("<{|}[]", "\x04\x05\x18\x19\x1a\x1b")
SHOWN = {placeholder: character for character, placeholder in VISIBLE.items()}

# Elements that do not contain running text: https://www.mediawiki.org/wiki/Parser_extension_tags
_HIDDEN = (
    "ref|references|gallery|timeline|imagemap|score|graph|hiero|templatedata|templatestyles|"
    "syntaxhighlight|source|pre|mapframe|maplink|indicator|inputbox|categorytree|section|rss|"
    "style|includeonly|phonos|chart"
)
_FORMULAS = "math|chem|ce"


def _element(names: str) -> re.Pattern[str]:
    content = r"[^<]*(?:<(?!/?\1\b)[^<]*)*"
    return re.compile(rf"<({names})\b[^<>]*?(?:/>|>({content})</\1\s*>)", re.DOTALL | re.IGNORECASE)


_HIDDEN_ELEMENT, _FORMULA = _element(_HIDDEN), _element(_FORMULAS)
_NOWIKI = re.compile(
    r"<nowiki\s*/>|<nowiki\s*>([^<]*(?:<(?!/?nowiki\b)[^<]*)*)</nowiki\s*>", re.IGNORECASE
)
_MARKUP = re.compile(r"[<>\[\]{}|]")

_LINES = (
    "p|div|blockquote|center|poem|ul|ol|dl|li|dt|dd|h1|h2|h3|h4|h5|h6|br|hr|table|tr|caption|"
    "section|article|aside|header|footer|main|nav|figure|figcaption|form|fieldset|address|details|"
    "summary|tbody|thead|tfoot"
)
_CELLS = "td|th"
_INLINE = (
    "a|abbr|acronym|area|audio|b|base|bdi|bdo|big|blink|body|button|canvas|cite|code|col|colgroup|"
    "data|datalist|del|dfn|em|embed|font|frame|frameset|head|html|i|iframe|img|input|ins|kbd|label|"
    "legend|link|map|mark|marquee|menu|meta|meter|noframes|noscript|nowiki|object|optgroup|option|"
    "output|param|picture|progress|q|rb|rbc|rp|rt|rtc|ruby|s|samp|script|select|small|span|strike|"
    "strong|sub|sup|svg|template|textarea|time|title|track|tt|u|var|video|wbr|charinsert|"
    "dynamicpagelist|langconvert|listing|quiz|noinclude|onlyinclude|nomobile|translate|tvar|languages"
)
_ALL = "|".join((_LINES, _CELLS, _INLINE, _FORMULAS, _HIDDEN))
_TAG = re.compile(
    # A tag without its end is one only if its name is longer than that of a variable: "a <b".
    rf"</?(?:({_LINES})|({_CELLS})|(?:{_ALL}))"
    r"(?:[\\.]?(?=[\s/>])(?:[^<>\n]|\n(?!\s*\n))*>|"
    r"(?<=\w\w)\b(?:\s+[\w-]+\s*=\s*(?:\"[^\"<>\n]*\"?|[^\s<>]*))*[ ]*/?)",
    re.IGNORECASE,
)


def without_elements(text: str) -> str:
    """Wiki text without elements that are not text, and with formulas as text."""
    if "<" not in text:
        return text
    text = _NOWIKI.sub(_escaped, text)
    return _FORMULA.sub(_formula, _HIDDEN_ELEMENT.sub("", text))


def without_tags(text: str) -> str:
    """Return the text of a page without tags that were left for lack of a counterpart."""
    if "<" not in text:
        return text
    return _TAG.sub(lambda found: "\n" if found[1] else " " if found[2] else "", text)


def _escaped(found: re.Match) -> str:
    """Return the content of `<nowiki>`, in which markup is text."""
    return _MARKUP.sub(lambda mark: f"&#{ord(mark[0])};", found[1] or "")


def _formula(found: re.Match) -> str:
    name, content = found[1].lower(), found[2] or ""
    text = formula_text(content) if name == "math" else chemical_formula(content)
    return text.replace("<", "&lt;") or GAP


_MAX_FORMULA = 60

# Spacing and styles are dropped; commands that stand for a character or a word are replaced.
_SPACING = re.compile(
    r"\\(?:[,;:! ]|(?:q?quad|left|right|[bB]ig[lr]?|displaystyle|textstyle|limits)(?![A-Za-z]))"
)
_STYLED = re.compile(
    r"\\(?:math(?:rm|bf|it|sf|cal|bb|frak)|text(?:rm|bf|it)?|operatorname)\s*\{([^{}\\]*)\}"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}\\/]*)\}\s*\{([^{}\\/]*)\}")
_POWER = re.compile(r"\^\s*(?:\{([^{}\\^_]*)\}|([\w+-]))")
_INDEX = re.compile(r"_\s*(?:\{([^{}\\^_]*)\}|(\w))")
_GROUP = re.compile(r"(?<![\\^_])\{([^{}]*)\}")
_TEX_COMMAND = re.compile(r"\\([A-Za-z]+|[%$&#{}|])")
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
    text = _STYLED.sub(r"\1", _SPACING.sub(" ", text))
    text = _TEX_COMMAND.sub(lambda found: _SYMBOLS.get(found[1], found[0]), text)
    text = _POWER.sub(lambda found: _script(found, superscript), text)
    text = _INDEX.sub(lambda found: _script(found, subscript), text)
    text = _FRACTION.sub(lambda found: f"{_grouped(found[1])}/{_grouped(found[2])}", text)
    text = _GROUP.sub(r"\1", text)
    if len(text) > _MAX_FORMULA or re.search(r"[\\{}]", text):
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

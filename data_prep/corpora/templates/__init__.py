"""The text of Wikipedia templates inside a sentence: `{{convert|12|km}}` -> "12 km".

Most templates are boxes, citations and notices, and are removed. Others stand for words that the
sentence needs. Which ones, and what a reader of the page sees in their place, is data: one file of
rows for each language next to this one, and `shared.txt` for what all wikis have in common. The
rows follow the documentation that templates have on their own pages (Template:Convert and so on),
as far as running text needs it; they were not compared with rendered pages.
"""

from data_prep.corpora.templates.expansion import (
    ANY_GAP,
    GAP,
    GAP_CHARACTERS,
    UNKNOWN,
    gap_numbers,
    numbered_gap,
)
from data_prep.corpora.templates.functions import chemical_formula
from data_prep.corpora.templates.numbers import subscript, superscript
from data_prep.corpora.templates.table import (
    TemplateTable,
    check_rows,
    template_name,
    template_table,
)

__all__ = [
    "ANY_GAP",
    "GAP",
    "GAP_CHARACTERS",
    "UNKNOWN",
    "TemplateTable",
    "check_rows",
    "chemical_formula",
    "gap_numbers",
    "numbered_gap",
    "subscript",
    "superscript",
    "template_name",
    "template_table",
]

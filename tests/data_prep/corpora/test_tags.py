"""Tags without counterpart, and lines that look like markup: text stays, markup does not."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.corpora.base import Counts
from data_prep.corpora.templates import template_table
from data_prep.corpora.wikitext import Page, Site, paragraphs

PAGE = Page(Site(), template_table("en"))

# HTML, https://html.spec.whatwg.org/#elements-3 and what it has abandoned; extensions of MediaWiki.
NAMES = re.findall(
    r"\w+",
    """
    a abbr acronym address article aside audio b bdi bdo big blink blockquote body button canvas
    caption center cite code col colgroup data dd del details dfn div dl dt em fieldset figcaption
    figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i iframe img input ins kbd label
    legend li link main map mark marquee meta meter nav noscript object ol optgroup option output p
    param picture progress q rb rp rt rtc ruby s samp script select small source span strike strong
    style sub summary sup svg table tbody td template textarea tfoot th thead time title tr track tt
    u ul var video wbr categorytree ce chart chem gallery graph hiero imagemap includeonly indicator
    inputbox langconvert mapframe maplink math noinclude nowiki onlyinclude phonos poem pre ref
    references rss score section syntaxhighlight templatedata templatestyles timeline translate tvar
    """,
)

FORMS = ["<{0}>", "</{0}>", "<{1}>", "<{0} class='x y' id=z>", '<{0}\n title="a b">', "</{0} >"]


def joined(wikitext: str) -> str:
    return " ".join(paragraphs(wikitext, PAGE))


@pytest.mark.parametrize("form", [*FORMS, "<{0}/>", "<{0} a=b />"])
def test_a_tag_without_counterpart_leaves_nothing_and_hides_nothing(form):
    for name in NAMES:
        tag = form.format(name, name.upper())
        text = f"The first [[part]] {tag} and the ''second''.\n\nAnother {tag} [[one|part]] of it."
        assert joined(text) == "The first part and the second. Another part of it.", tag


@pytest.mark.parametrize("form", ["<{0}", "</{0}", '<{0} id="x', "<{0} id=x y='z' /"])
def test_a_tag_that_is_cut_off_leaves_nothing(form):
    for name in NAMES:
        if len(name) > 1:
            text = f"The first part {form.format(name)}\n\nThe second."
            assert joined(text) == "The first part The second.", name


@given(st.lists(st.sampled_from(NAMES), unique=True), st.sampled_from(FORMS), st.data())
def test_no_word_is_lost_between_tags_without_counterpart(names, form, data):
    words, text = [], ""
    for number, name in enumerate(names):
        words.append(f"word{number}")
        text += words[-1] + data.draw(st.sampled_from([" ", "\n\n"]))
        text += form.format(name, name.upper())
    assert joined(text + "end").split() == [*words, "end"]


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        # Not tags
        ("If a < b and a <b or 1 <3, x<y>z and <foo> stay.",
         "If a < b and a <b or 1 <3, x<y>z and <foo> stay."),
        ("An &lt;ref&gt; or <nowiki><br> '''{{x}} [[y]]</nowiki> is shown.",
         "An <ref> or <br> {{x}} [[y]] is shown."),
        ("So <math>x <p> y</math> holds.", "So x <p> y holds."),
        # An element that begins again was not closed.
        ("One <ref name=a> two.\n\nThree<ref>Note.</ref> four.", "One two. Three four."),
        ("One <ref name=a / > two <ref>note</ref> three.", "One two three."),
        ("One<REF group='n'>note <b>x</b> < y</Ref > two<references group=a />.", "One two."),
        ("One <gallery> two <GALLERY>A.jpg|B</GALLERY> three.", "One two three."),
        ("One <gallery>\nFile:A b.JPG|B\nImage:C.png\n\nTwo: three.", "One Two: three."),
        ("One <math> two <math>x_1</math> three.", "One two x₁ three."),
        ("<small>One.\n\nTwo</small> three.", "One. Two three."),
        # Line breaks
        ("One<BR>two<br/>three</br>four<br clear=all >five<br\\>six<br.>seven",
         "One two three four five six seven"),
        ("One<p>two<td>three", "One two three"),
        # Transclusion
        ("One <noinclude>two</noinclude> <ONLYINCLUDE>three</ONLYINCLUDE>.", "One two three."),
        ("One <includeonly>two</includeonly> three.", "One three."),
        ("One.\n<onlyinclude>{| class=x\n| two\n|}</onlyinclude>\nThree.", "One. Three."),
        # Chemistry
        ("Alcohol, <chem>C2H5OH</chem>, and <CE>NH4+</CE> react.",
         "Alcohol, C2H5OH, and NH4+ react."),
        ("In <ce>CO3^2- + H2O <=> HCO3^- + OH^-</ce> and <chem>2 Na -> x</chem>.",
         "In CO3²⁻ + H2O ⇌ HCO3⁻ + OH⁻ and 2 Na → x."),
        ("In {{chem2|Fe2O3}} as in <chem>Fe2O3</chem>.", "In Fe2O3 as in Fe2O3."),
        ("An empty <chem></chem>, <ce/> one.", "An empty, one."),
    ],
)  # fmt: skip
def test_tags(wikitext, expected):
    assert joined(wikitext) == expected


PROSE = [
    "The size |-7| of a step is 7.",
    "|x| is the size of x, and ||x|| = |x| too.",
    "|-2| and |+2| are equal = 2.",
    "! is the sign of factorials, 3! = 6.",
    "!Kung is a language, with align = left.",
    "The box has width = 4 and class = B.",
    "Width = 7, style = Gothic.",
    "In P(A|B) = 3 we see {x : |x|} and a |- b |} c {| d.",
    "The pair is {{a}, {a, b}}, as {1, {2, {3}}} shows.",
    "Left | right = up.",
    "A [1]| or a[2] | b.",
    "See figure: a.jpg is a file.",
]


@pytest.mark.parametrize("prose", PROSE)
def test_prose_that_looks_like_markup_is_kept(prose):
    counts = Counts()
    wikitext = prose.replace("{{", "{<!-- -->{").replace("[", "&#91;").replace("]", "&#93;")
    for text in (wikitext, f"Before.\n\n{wikitext}\n\n{{|\n| broken\n\nAfter."):
        assert prose in paragraphs(text, PAGE, counts=counts)
    assert counts.left_out == {"lines of broken markup": 2}


@pytest.mark.parametrize(
    "lines",
    [
        "{| class=wikitable\n|-\n! A !! B\n|+ x\n| a || b\n!c",
        "|-\n|a\n|}",
        "|- style='x'\n!a=b",
        "| cell = x",
        "|name = x",
        "|",
        "style=\"color: red\" align=left | 5",
        "colspan=2| 5",
        "! width=50",
        "class=\"wikitable sortable\"",
        "a style=\"x: y\">b",
        "300px|thumb|A caption = x",
        "And {{an open template = x",
        "and its end}} = x",
    ],
)  # fmt: skip
def test_lines_of_broken_markup_are_dropped_and_counted(lines):
    counts = Counts()
    found = paragraphs(f"Before = a.\n\n{lines}\n\nAfter | b.", PAGE, counts=counts)
    assert found == ["Before = a.", "After | b."]
    assert counts.left_out == {"lines of broken markup": len(re.split("\n", lines))}

"""Wiki text to plain text: text stays, markup does not, and prose is not taken for it."""

import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from data_prep.corpora.base import Counts
from data_prep.corpora.tags import formula_text
from data_prep.corpora.templates import template_table
from data_prep.corpora.wikipedia import is_disambiguation
from data_prep.corpora.wikitext import Page, Site, paragraphs
from tests.conftest import random_inputs

GERMAN = Site(
    "dewiki",
    frozenset({"file", "image", "category", "datei", "kategorie"}),
    media=frozenset({"media", "medium"}),
)
# German names of namespaces, English templates.
PAGE = Page(GERMAN, template_table("en"))


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        # Links
        ("A [[cat]] and [[dog]]s.", "A cat and dogs."),
        ("The [[Felis catus|cat]]'s ''[[paw|paws]]''.", "The cat's paws."),
        ("[[File:A.jpg|thumb|A [[cat]].]]Text here.", "Text here."),
        ("Text.[[Category:Cats]] [[Kategorie:Katzen|K]] [[Datei:A.png|mini|B]]", "Text."),
        ("Text [[:Category:Cats|of cats]].", "Text of cats."),
        ("See [[:File:A.jpg|the picture]] and [[:Datei:B.png|a ''second'' one]].",
         "See the picture and a second one."),
        ("You [[Media:A.ogg|hear]] or [[medium:B.ogg|don't]]. [[:file:C.svg]]",
         "You hear or don't. file:C.svg"),
        ("Text. [[de:Katze]][[zh-min-nan:Niau]]", "Text."),
        ("It is in [[wikt:cat|Wiktionary]].", "It is in Wiktionary."),
        ("Sounds: [[Bild:Alt.jpg|rechts|120px]] here.", "Sounds: here."),
        ("See [http://x.org the page] of [http://y.org] http://z.org now.", "See the page of now."),
        # Style
        ("'''Bold''', ''italic'' and '''''both'''''.", "Bold, italic and both."),
        ("''Iliad'''s heroes, ''rock 'n' roll''.", "Iliad's heroes, rock 'n' roll."),
        ("L'''amour'' et l''''Iliade'''.", "L'amour et l'Iliade."),
        ("Water is H<sub>2</sub>O, 10<sup>-6</sup> m<sup>2</sup>.", "Water is H₂O, 10⁻⁶ m²."),
        ("<i style='color:red'>Red</i> &amp; blue&nbsp;&ndash; green.", "Red & blue – green."),
        ("Text<!-- a\ncomment --> goes on.", "Text goes on."),
        ("__NOTOC__\nText with __init__ in it. __ÍNDICE__", "Text with __init__ in it."),
        # What is not text
        ("Text<ref name=a>Note {{cite|x}}.</ref> on<ref name=a/>.<ref group=\"b\" />", "Text on."),
        ("A {{Infobox\n| a = b {{c|d}}\n}} B.", "A B."),
        ("{|class=x style='y'\n|-\n|a||b\n{|\n|c\n|}\n|}\nText.", "Text."),
        ("Text.\n<gallery>\nA.jpg|B\n</gallery>\n<timeline>x</timeline>", "Text."),
        ("Code: <syntaxhighlight lang=c>int x;</syntaxhighlight>here.", "Code: here."),
        ("\n  int x = 0;\nText.\n", "Text."),
        ("Text.\n* item\n# item\n: indented\n; term : definition", "Text."),
        # Templates that say something
        ("A {{convert|5|to|10|mi|km}} walk, {{cvt|5|ft|3|in}} high.",
         "A 5 to 10 miles walk, 5 feet 3 inches high."),
        ("A {{convert|12|ft|m|adj=on}} wall of {{convert|1|lb}}.", "A 12-foot wall of 1 pound."),
        ("{{As of|2015}}, and {{as of|2015|3|lc=y}}.", "As of 2015, and as of March 2015."),
        ("On {{OldStyleDate|May 2|1905|April 20}}.", "On May 2 [O.S. April 20] 1905."),
        ("The {{lang|fr|''mot juste''}} ({{lang-de|Wort}}).", "The mot juste (Wort)."),
        ("{{nowrap|1 2}} {{frac|1|2}} {{frac|3|1|2}} x", "1 2 1/2 3 1/2 x"),
        ("Born {{circa|1900}}, {{val|1.5|e=3|u=km}}.", "Born c. 1900, 1.5 × 10³ km."),
        ("The {{USS|Hornet|CV-12}} and {{HMS|Hood|51|2}}.",
         "The USS Hornet (CV-12) and Hood."),
        ("It cost {{US$|100}}{{snd}}cheap.", "It cost US$100 – cheap."),
        ("He said:\n{{quote\n|text=Go on.\n|author=X}}\nThey went.",
         "He said:\nGo on.\nThey went."),
        # Parameters of templates, which have no value on a page
        ("He won {{{1|}}} games {{{n}}} and {{{place|third}}} place.",
         "He won games and third place."),
        ("The {{{a|{{{b|{{{c|deep}}}}}}}}} [[sea]] ({{{x|}}}).", "The deep sea."),
        ("A {{{1|[[b|link]] or {{lang|fr|mot}}}}}, {{{1|[[c|d]]|e}}} and {{nowrap|{{{1|x}}}}}.",
         "A link or mot, d and x."),
        ("Code: <nowiki>{{{1|x}}}</nowiki>.", "Code: {{{1|x}}}."),
        # What is left of brackets
        ("Paris ({{IPAc-en|p}}; {{lang-fr|Paris}}) is", "Paris (Paris) is"),
        ("Paris ({{IPA|p}}) is a city, {{cn}} big {{x}}, really {{y}}.",
         "Paris is a city, big, really."),
        ("Albert ({{IPA|x}}; 14 March 1879) was", "Albert (14 March 1879) was"),
        ("It cost $5 (${{Inflation|US|5|1950}} in dollars) then.", "It cost $5 then."),
        # Lines and paragraphs
        ("A sentence that goes\non in a line.\nAnd one more.",
         "A sentence that goes on in a line.\nAnd one more."),
        # Broken markup
        ("Text [[with an open link.\n\nAnd {{an open template.", "Text with an open link."),
        ("Good.\n\n|}\n\n| align=right | 5\n\n|-\n\nBetter.", "Good.\nBetter."),
        # Chinese
        ("电脑-{zh-hans:软件;zh-hant:軟體}-和-{A|zh-cn:程序;zh-tw:程式}-，-{T|x}-（）很好。",
         "电脑软件和程序，很好。"),
    ],
)  # fmt: skip
def test_text_is_kept_and_markup_removed(wikitext, expected):
    assert "\n".join(paragraphs(wikitext, PAGE)) == expected


@pytest.mark.parametrize("code", range(1, 32))
def test_a_control_character_of_a_page_is_not_taken_for_one_of_ours(code):
    """They stand for headings, gaps, brackets and more between the steps."""
    counts, mark = Counts(), f"&#{code};"
    wikitext = f"One (&#x{code:x};) two.\n\n{mark}Three [{mark}4] is {{{{odd}}}}{mark} here."
    assert paragraphs(wikitext, PAGE, counts=counts) == ["One two.", "Three [4] is here."]
    assert counts == Counts(unknown_templates=Counter({"odd": 1}))


ARTICLE = """
'''Lead'''.
== History ==
Once.
=== Early ===
* item
== Empty ==
=== Below ===
{{box}}
== Works ==
* [[work]]
== Notes ==
He noted this.
== See also ==
* [[Other]]
== References {{anchor|notes}} ==
<references/>
{{reflist}}
Smith, J. ''Book''.
== External links ==
=== Official ===
This is [http://x.org a site].
"""


def test_sections_without_text_and_references_are_removed():
    assert paragraphs(ARTICLE, PAGE) == ["Lead.", "Once.", "He noted this."]
    assert paragraphs(ARTICLE, PAGE, keep_headings=True) == [
        "Lead.", "History", "Once.", "Notes", "He noted this.",
    ]  # fmt: skip
    assert paragraphs(ARTICLE, PAGE, keep_lists=True) == [
        "Lead.", "Once.", "item", "work", "He noted this.",
    ]  # fmt: skip
    assert paragraphs(ARTICLE, PAGE, keep_headings=True, keep_lists=True) == [
        "Lead.", "History", "Once.", "Early", "item", "Works", "work", "Notes", "He noted this.",
    ]  # fmt: skip


PIECES = st.sampled_from(
    ["{{", "}}", "[[", "]]", "{|", "|}", "|", "\n", "\n|-\n", "<ref>", "</ref>", "<ref name=", ">",
     "''", "'''", "==", "\n== H ==\n", "*", ":", "<div style=x>", "</div>", "<math>x</math>",
     "<nowiki>", "</nowiki>", "<!--", "-->", "-{", "}-", "&#x110000;", "&amp;", "http://a.b ",
     "File:a.jpg", "convert", "12", "km", "quote", "word ", "Sentence. ", "(", ")", ";", " ", "\n "]
)  # fmt: skip


@random_inputs(150)
@example("{{}-File:a.jpg|}")
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_markup_gives_clean_lines(wikitext):
    for line in paragraphs(wikitext, PAGE, keep_headings=True, keep_lists=True):
        # `<nowiki>` shows markup.
        if "<nowiki>" not in wikitext:
            assert not re.search(r"\[\[|\]\]|<ref|<div", line)
            braces = re.sub(r"\{\||\|\}", "", line)  # a table within a line is text
            if "{{" in braces or "}}" in braces:  # a set of sets
                assert any(text.count("{") == text.count("}") for text in (braces, line))
        assert not re.search(r"[\x00-\x1f]|  ", line)
        assert line == line.strip()
        assert any(map(str.isalpha, line))


@given(st.lists(st.sampled_from(["plain", "words", "and,", "more.", "é", "中文。"]), min_size=1))
def test_plain_text_is_unchanged(words):
    text = " ".join(words)
    assert paragraphs(text, PAGE) == [text]


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        ("x", "x"),
        (r"a_1 + b_{12}^2 \le \alpha", "a₁ + b₁₂² ≤ α"),
        (r"\frac{n+1}{2}", "(n+1)/2"),
        (r"\{1, 2\}", "{1, 2}"),
        (r"\mathrm{d}x \cdot 10^{-3}\,", "dx · 10⁻³"),
        (r"x_k^n", "x_kⁿ"),
        (r"\sum_{i=1}^n x_i", ""),
        (r"\begin{matrix}a & b\end{matrix}", ""),
        ("x" * 100, ""),
        ("", ""),
    ],
)
def test_simple_formulas_are_kept(tex, expected):
    assert formula_text(tex) == expected


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        ("Mercury (disambiguation)", "", True),
        ("Merkur (Begriffsklärung)", "", True),
        ("Mercury", "x may refer to\n{{Disambig|surname}}", True),
        ("Mercure", "{{ Homonymie }}", True),
        ("水星", "{{消歧义}}", True),
        ("Mercury", "{{Given_name}}\n__DISAMBIG__", True),
        ("Mercury (planet)", "{{about|the planet|others|Mercury (disambiguation)}}", False),
        ("Disambiguation", "{{disambiguation needed|date=x}}", False),
    ],
)
def test_disambiguation_pages(title, text, expected):
    assert is_disambiguation(title, text) == expected


PLAIN = Page(Site(), template_table("en"))

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

FORMS = [
    *("<{0}>", "</{0}>", "<{1}>", "<{0} class='x y' id=z>", '<{0}\n title="a b">', "</{0} >"),
    *("<{0}/>", "<{0} a=b />"),
]


def joined(wikitext: str) -> str:
    return " ".join(paragraphs(wikitext, PLAIN))


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


@pytest.mark.parametrize(
    "prose",
    [
        "The size |-7| of a step is 7.",
        "|-2| and |+2| are equal = 2.",
        "! is the sign of factorials, 3! = 6.",
        "!Kung is a language, with align = left.",
        "The box has width = 4 and class = B.",
        "In P(A|B) = 3 we see {x : |x|} and a |- b |} c {| d.",
        "The pair is {{a}, {a, b}}, as {1, {2, {3}}} shows.",
        "Left | right = up.",
        "A [1]| or a[2] | b.",
        "See figure: a.jpg is a file.",
    ],
)
def test_prose_that_looks_like_markup_is_kept(prose):
    counts = Counts()
    wikitext = prose.replace("{{", "{<!-- -->{").replace("[", "&#91;").replace("]", "&#93;")
    for text in (wikitext, f"Before.\n\n{wikitext}\n\n{{|\n| broken\n\nAfter."):
        assert prose in paragraphs(text, PLAIN, counts=counts)
    assert counts.left_out == {"lines of broken markup": 2}


@pytest.mark.parametrize(
    "lines",
    [
        "{| class=wikitable\n|-\n! A !! B\n|+ x\n| a || b\n!c",
        "|-\n|a\n|}",
        "|- style='x'\n!a=b",
        "| cell = x",
        "|",
        "style=\"color: red\" align=left | 5",
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
    found = paragraphs(f"Before = a.\n\n{lines}\n\nAfter | b.", PLAIN, counts=counts)
    assert found == ["Before = a.", "After | b."]
    assert counts.left_out == {"lines of broken markup": len(re.split("\n", lines))}

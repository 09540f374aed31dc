"""Templates of wikis: what a reader of the page sees in their place, by language."""

import pathlib
from collections import Counter

import pytest

from albert_tf.errors import InputError
from data_prep.corpora import templates
from data_prep.corpora.base import MAX_TEMPLATE_NAMES, OTHER_TEMPLATES, Counts
from data_prep.corpora.templates import check_rows, template_table
from data_prep.corpora.wikitext import Page, Site, paragraphs
from tests.data_prep.corpora.test_wikipedia import HEADER, page
from tests.support.texts import read_corpus

NINES = "9" * 5000
FOLDER = pathlib.Path(templates.__file__).parent
TABLES = sorted(set(FOLDER.glob("*.txt")) - {FOLDER / "numbers.txt"})


def names_of_rows(path: pathlib.Path) -> list[str]:
    lines = path.read_text("utf-8").split("\n")
    return [line.partition("->")[0] for line in lines if "->" in line]


def text_of(wikitext: str, language: str, rows: str = "", counts: Counts | None = None) -> str:
    table = template_table(language, rows)
    found = paragraphs(wikitext, Page(Site(), table, "Neustadt (Hessen)"), counts=counts)
    return "\n".join(found)


@pytest.mark.parametrize(
    ("language", "wikitext", "expected"),
    [
        # The same name stands for different words.
        ("en", "a mass of 5{{e|3}} kg", "a mass of 5 × 10³ kg"),
        ("fr", "la 4{{e}} place, la 2{{e|nde}} aussi", "la 4e place, la 2nde aussi"),
        ("fr", "au {{s|XII}} et au {{s-|I|er}}", "au XIIe siècle et au Ier siècle"),
        ("en", "as {{citation|last=Poe}} says", "as says"),
        ("fr", "il dit {{citation|jamais}}", "il dit « jamais »"),
        ("xx", "der 3{{e}} und {{s|XII}}", "der 3 und"),
        # Quotations
        ("de", 'er sagte {{"|Nein}} und ging', "er sagte „Nein“ und ging"),
        # Dates
        ("fr", "né le {{date de naissance-|1|mars|1850}} et mort le {{date|3|4|1901|en art}}",
         "né le 1er mars 1850 et mort le 3 avril 1901"),
        ("ja", "彼は{{生年月日と年齢|1903|2|01}}生まれ。", "彼は1903年2月1日生まれ。"),
        ("zh", "他（{{BD|1903年|2月1日|1980年}}）是", "他（1903年2月1日－1980年）是"),
        ("simple", "on {{birth date|1903|2|1}} or {{birth date|1903|2}}",
         "on February 1, 1903 or February 1903"),
        # Numbers with units
        ("en", "{{formatnum:1234567.25}} or {{formatnum:-8}} people", "1,234,567.25 or −8 people"),
        ("en", f"{{{{formatnum:{NINES}}}}} or {{{{formatnum:007}}}} x", f"{NINES} or 007 x"),
        ("de", "{{FormatZahl|98765.5}} und {{formatnum:1234}} Leute",
         "98.765,5 und 1.234 Leute"),
        ("fr", "{{unité|7500|m|3}}, {{nombre|3|lits}} et {{unité|2.5|m|s|-1}}",
         "7500 m³, 3 lits et 2,5 m⋅s⁻¹"),
        ("fa", "{{formatnum:1503.2}} نفر", "۱٬۵۰۳٫۲ نفر"),
        ("hi", "{{formatnum:1234567.8}} या {{formatnum:1234}}", "12,34,567.8 या 1,234"),
        ("de", "{{formatnum:1234.5|NOSEP}} und {{formatnum:1.234,5|R}}", "1234.5 und 1234.5"),
        ("fa", "{{formatnum:1503|NOSEP}} {{formatnum:۱٬۵۰۳٫۲|R}} نفر", "۱۵۰۳ 1503.2 نفر"),
        ("fr", "{{formatnum:1 503,2|R}} x", "1503.2 x"),
        ("en", "{{formatnum:1234 km}} or {{formatnum:about 5000}} x", "1,234 km or about 5,000 x"),
        ("zh", "长{{convert|12|km|mi}}的路", "长12 km的路"),
        ("en", "{{val|1.2|0.1|u=m}}, {{val|1.2|0.1|e=3|u=m}} or {{val|1.234|(5)|e=-6|u=m}}",
         "1.2 ± 0.1 m, (1.2 ± 0.1) × 10³ m or 1.234(5) × 10⁻⁶ m"),
        ("en", "{{val|5|to|10|u=km}}, {{val|5|-|10|e=3}} or {{val|2|x|3|x|4|ul=m}} x",
         "5 to 10 km, (5–10) × 10³ or 2 × 3 × 4 m x"),
        ("en", "{{val|-5|ul=m|upl=s}}, {{val|p=~|12345|fmt=commas|s=?}} or {{val|7|up=s}} x",
         "−5 m/s, ~12,345? or 7/s x"),
        ("en", "{{val|1.5e3|u=m}}, {{val|e=9|u=m}}, {{val|5|u=%}} or {{val|5||u=deg}} x",
         "1.5 × 10³ m, 10⁹ m, 5% or 5° x"),
        # Links to articles that do not exist yet
        ("ja", "{{仮リンク|甲|en|A}}と{{仮リンク|label=乙|甲|en|A}}", "甲と乙"),
        ("ru", "{{не переведено 5|Дом|доме|en|House}} и {{нп3|Сад}}", "доме и Сад"),
        ("fr", "le {{lien|trad=House|lang=en}} et {{lien|Jardin|en|Garden|texte=jardin}}",
         "le House et jardin"),
        # Languages
        ("de", "({{laS|ad hoc}}, {{ruS|мир|mir}})", "(lateinisch ad hoc, russisch мир mir)"),
        ("fa", "رم ({{به لاتین|Roma}})", "رم (به لاتین: Roma)"),
        ("en", "the {{nihongo|Blue|青|ao}} and {{IAST|śiva}}", "the Blue (青, ao) and śiva"),
        # Centuries, ordinals, titles
        ("fr", "le {{XVIIe siècle}}, la {{3e}}, du {{-s|II}} au {{s|I}}",
         "le XVIIe siècle, la 3e, du IIe siècle av. J.-C. au Ier siècle"),
        ("fr", "aux {{sp-|V|e|et|X|e|s}}, au {{sp|I|ou au|X}}, aux {{-s2|II|e|I|er}}",
         "aux Ve et Xe siècles, au Ier ou au Xe siècle, aux IIe et Ier siècles av. J.-C."),
        ("ru", "({{OldStyleDate|8|июля|1831|26|июня}}; {{OldStyleDate|28|мая|1916|15}})",
         "(26 июня (8 июля) 1831; 15 (28) мая 1916)"),
        ("it", "{{Bio|Nome=Ugo|Cognome=Zeno|Sesso=M|LuogoNascita=Pisa|AnnoNascita=1900"
         "|Attività=scrittore|Attività2=poeta|Nazionalità=italiano}}",
         "Ugo Zeno (Pisa, 1900) è uno scrittore e poeta italiano."),
        ("it", "{{Bio|Nome=Ada|Cognome=Zeno|Sesso=F|AnnoNascita=1900|AnnoMorte=1980"
         "|FineIncipit=è stata una santa.}}", "Ada Zeno (1900 – 1980) è stata una santa."),
        # Magic words and parser functions
        ("de", "{{SEITENNAME}} und {{PAGENAME}} liegt", "Neustadt (Hessen) und Neustadt (Hessen)"
         " liegt"),
        ("en", "{{lc:ABC}} {{UCFIRST:abc}} {{plural:2|one|more}} {{#if: x |yes|no}}",
         "abc Abc more yes"),
        ("en", "{{#if: |yes|a=b}} in {{CURRENTYEAR}} x", "a=b in x"),
        # Boxes and notices
        ("fr", "Elle{{référence nécessaire|vit}}{{sfn|X}} ici{{quand}}.", "Ellevit ici."),
    ],
)  # fmt: skip
def test_templates_of_a_language(language, wikitext, expected):
    counts = Counts()
    assert text_of(wikitext, language, counts=counts) == expected
    assert not counts.unknown_templates or language == "xx"


@pytest.mark.parametrize(
    ("row", "wikitext", "expected"),
    [
        ("t -> {1}", "a {{T| b }} c", "a b c"),
        ("t|u v -> <{1}", "{{t|a}} {{u_v|b}}", "<a <b"),
        ("t -> {x|2|\"none\"}", "{{t|a|b}} {{t|a|b|x=c}} {{t|a}}", "b c none"),
        ("t -> {1}[ ({2}[, {3}])]", "{{t|a}} {{t|a|b}} {{t|a|b|c}} {{t|a||c}}",
         "a a (b) a (b, c) a"),
        ("t -> {*-}; {2*, }; {-1}", "{{t|a|b|c}}", "a-b-c; b, c; c"),
        ("t -> {1:upper}{2:sup}", "{{t|ab|2}}", "AB²"),
        (r"t -> \[{1}\]\s", "{{t|a}}b", "[a] b"),
        ("t*x -> {0}", "{{Tax x|a}} {{txy}} b", "Tax x b"),
        ("zz* -> a\nzzy* -> b\nzzyx -> c\nzzyx* -> d", "{{zza}} {{zzya}} {{zzyx}} {{zzyxa}}",
         "a b c d"),
        ("f: -> {1}+{2}", "{{f:a|b=c}} {{F: d}}", "a+b=c d+"),
        ("months = a b c d e f g h i j k l\ndate = [{day}/]{month}/{year}\nt -> @date ymd",
         "{{t|1900|2|3}} {{t|1900|12}}", "3/b/1900 l/1900"),
        ("e -> E{1}", "{{e|3}}", "E3"),
        ("e ->", "a{{e|3}}.", "a."),
        ("t -> ?", "It cost 5 (about {{t}} today).", "It cost 5."),
        ("# a comment\n\nt -> x", "{{t}}", "x"),
        ("#t: -> x{1}", "{{#t:y}}", "xy"),
    ],
)  # fmt: skip
def test_rows_of_the_user(row, wikitext, expected):
    check_rows(row, "rows.txt")
    assert text_of(wikitext, "en", row) == expected


def test_the_rows_of_the_documentation():
    page = (pathlib.Path(__file__).parents[3] / "docs" / "corpora.md").read_text("utf-8")
    rows = page.partition("# Template names")[2].partition("```")[0].partition("\n")[2]
    text = "L'{{étoile|Sirius}}, {{nobel|paix|année=1901}}, {{s-|X}}{{Palette Villes}}."
    assert text_of(text, "xx", rows) == "L'Sirius, prix Nobel de paix en 1901, Xe siècle."


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("t = {1}", "line 1, t = {1}: must be NAME|NAME -> TEXT, a setting"),
        ("t -> x\nt -> {1", r"line 2, t -> {1: { has no counterpart; write \\{"),
        ("t -> [x", r"\[ has no counterpart"),
        ("t -> x]", r"\] has no counterpart"),
        ("t -> {}", "'' is not an argument"),
        ("t -> {1:loud}", "after the colon must be one of sup, sub,"),
        ("t -> @conver", "@conver: must be one of @as_of, .*@convert,"),
        ("t| -> x", "a name is empty"),
        ("t -> @date", "must be @date and one of dmy, mdy, ymd"),
        ("t -> @date ddy", "must be @date and one of dmy, mdy, ymd"),
        ("numbers = 1,5\nt -> x", "must be the number 1234.5"),
        ("numbers = 12,34,568.7\nt -> x", "must be the number 1234.5"),
        ("months = January\nt -> x", "must be the names of 12 months, .* not 1"),
        ("# only a comment", "has no rows such as"),
        ("", "has no rows such as"),
    ],
)
def test_an_invalid_row_is_reported(row, message):
    with pytest.raises(InputError, match=rf"`templates`=rows\.txt: .*{message}"):
        check_rows(row, "rows.txt")


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_shipped_tables(path):
    """Every row is valid, and none hides another one of its table."""
    check_rows(path.read_text("utf-8"), path.name)
    names = Counter(name.strip().lower() for row in names_of_rows(path) for name in row.split("|"))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_no_arguments_stop_a_template(path):
    """An exception would leave out the page."""
    names = [row.split("|")[-1].replace("*", "x") for row in names_of_rows(path)]
    for arguments in ("", "|", "||||||", "|a|b|c|d|e|f", "|1|2|3", "|²|x=|-1=b"):
        text = " ".join(f"word {{{{{name.strip()}{arguments}}}}}" for name in names)
        assert text_of(text, path.stem).count("word") == len(names)


def test_unknown_templates_inside_text_are_counted_by_name():
    counts = Counts()
    wikitext = (
        "{{Odd box|a={{inside a box}}}}\n{{odd note}}\nThe {{Odd_word|x}} is {{odd word\n|y}} or"
        " {{cn}}{{#odd: a|b}}{{nowrap|so {{deep}}}}.\n* {{in a list|x}} item\n\n"
        "<ref>{{in a note}}</ref>\n\n{|\n|{{in a table}}\n|}\n\n[[File:A.jpg|{{in a caption}}]]"
    )
    assert text_of(wikitext, "en", counts=counts) == "The is or so."
    assert counts.unknown_templates == {"odd word": 2, "#odd:": 1, "deep": 1}
    counts = Counts()
    assert text_of(wikitext, "en", "odd word -> {1}\ndeep ->", counts) == "The x is y or so."
    assert counts.unknown_templates == {"#odd:": 1}


def test_counts_of_unknown_templates_stay_small():
    counts = Counts()
    for number in range(2 * MAX_TEMPLATE_NAMES):
        for _ in range(2 if number < 3 else 1):
            counts.add_unknown_template(f"name {number}")
    total = Counts()
    total += counts
    assert len(total.unknown_templates) <= MAX_TEMPLATE_NAMES + 1
    assert sum(total.unknown_templates.values()) == 2 * MAX_TEMPLATE_NAMES + 3
    assert total.unknown_templates[OTHER_TEMPLATES] == MAX_TEMPLATE_NAMES
    # The order, too, is that of a run that was not interrupted.
    shown = list(total.as_dict()["unknown_templates"])
    assert shown[:4] == [OTHER_TEMPLATES, "name 0", "name 1", "name 2"]
    resumed = Counts()
    resumed += Counts(**total.as_dict())
    assert list(resumed.as_dict()["unknown_templates"]) == shown


@pytest.mark.parametrize(
    ("header", "option", "expected"),
    [
        (HEADER.replace("<mediawiki ", '<mediawiki xml:lang="fr" '), "de", "« Ja » 3e"),
        (HEADER, "fr", "„Ja“ 3"),  # dewiki
        (HEADER.replace("dewiki", "simplewiki"), "de", "3 × 10"),
        (HEADER.replace("<dbname>dewiki</dbname>", ""), "fr-CA", "« Ja » 3e"),
        (HEADER.replace("<dbname>dewiki</dbname>", ""), "xx", "3"),
    ],
)
def test_the_language_is_that_of_the_dump(tmp_path, header, option, expected):
    header = header.replace(
        "<namespaces>", '<namespaces><namespace key="10" case="first-letter">Vorlage</namespace>'
    )
    pages = [page("A", 'Er sagte: {{Vorlage:"|Ja}} 3{{e}} mal.')]
    (tmp_path / "dump.xml").write_text(header + "".join(pages) + "</mediawiki>\n", "utf-8")
    (document,), _ = read_corpus("wikipedia", tmp_path / "dump.xml", language=option)
    shown = document.paragraphs[0].removeprefix("Er sagte: ").removesuffix(" mal.")
    assert shown.replace("“Ja” ", "") == expected

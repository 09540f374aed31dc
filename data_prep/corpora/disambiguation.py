"""Recognizes the pages of the largest Wikipedias that only list articles of the same name.

Such pages have a template or a suffix of the title. The English names are those of the page
Template:Disambiguation, with its shortcuts and special forms; the others are those of its
counterparts in other languages.
"""

import re

from data_prep.corpora.base import names_in

_TEMPLATES = """
disambiguation|disambig|disamb|dab|disambiguation page|disambiguation cleanup|disambig-cleanup
hndis|human name disambiguation|geodis|place name disambiguation|airport disambiguation|hospitaldis
letter-number combination disambiguation|letter-numbercombdisambig|numberdis|mathdab
mathematical disambiguation|mil-unit-dis|roaddis|road disambiguation|schooldis|school disambiguation
callsigndis|call sign disambiguation|species latin name disambiguation|genus disambiguation
taxonomy disambiguation|chinese title disambiguation|letter disambiguation|station disambiguation
biology disambiguation|chemistry disambiguation|music disambiguation|opus disambiguation
synagogue disambiguation|church disambiguation|political party disambiguation|tv disambiguation
begriffsklärung
homonymie|paronymie|patronymie|toponymie|homonymes
desambiguación|desambiguacion|desambiguação|desambig|desambigua|desambiguació
disambigua
doorverwijspagina|dp|dpintro
ujednoznacznienie|strona ujednoznaczniająca
неоднозначность|многозначность|значения
багатозначність|неоднозначність
消歧义|消歧義|消歧义页|disambig-cn|曖昧さ回避|aimai|人名の曖昧さ回避|地名の曖昧さ回避
동음이의|동명이인|동음이의어
förgrening|grensida|flertydig|betydninger|peker|pekerside|täsmennyssivu
rozcestník|egyért|egyértelműsítő lap|anlam ayrımı|anlamayrımı|dezambiguizare
توضيح|ابهام‌زدایی|פירושונים|αποσαφήνιση|định hướng|trang định hướng|disambiguasi
пояснение|вишезначна одредница|razdvojba|višeznačna odrednica
"""
_TITLES = """
disambiguation|Begriffsklärung|homonymie|desambiguación|desambiguação|disambigua|doorverwijspagina
ujednoznacznienie|значения|значення|消歧义|消歧義|曖昧さ回避|동음이의|동명이인
olika betydelser|andre betydninger|flertydig
täsmennyssivu|rozcestník|egyértelműsítő lap|anlam ayrımı|dezambiguizare|توضيح|ابهام‌زدایی
פירושונים|αποσαφήνιση|định hướng|disambiguasi|desambiguació
"""


_MARKS = names_in(_TEMPLATES)
_IN_TITLE = re.compile(rf"[(（](?:{'|'.join(map(re.escape, sorted(names_in(_TITLES))))})[)）]$")
_TEMPLATE_NAME = re.compile(r"\{\{\s*([^{}|\n]+?)\s*(?=[|}\n])")


def is_disambiguation(title: str, text: str) -> bool:
    """Return whether a page lists the articles that its title may refer to.

    Args:
        title: title of the page.
        text: wiki text of the page.
    """
    if _IN_TITLE.search(title) or "__DISAMBIG__" in text:
        return True
    return any(
        found[1].replace("_", " ").lower() in _MARKS for found in _TEMPLATE_NAME.finditer(text)
    )

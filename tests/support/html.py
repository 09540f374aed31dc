"""Reading pages back."""

import html.parser

_VOID = {"meta", "br", "link", "img", "input", "hr"}


class Reader(html.parser.HTMLParser):
    """Checks that elements are closed in order; collects names, attributes and text.

    Attributes:
        elements: (name, attributes) in order.
        text: everything that is read, pieces joined by spaces; no styles.
    """

    def __init__(self, page: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open, f"not closed: {self._open}"
        self.text = " ".join(" ".join(self._text).split())

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        if not {"style", "defs"} & set(self._open):
            self._text.append(data)

    def names(self) -> set[str]:
        return {name for name, _ in self.elements}


def read_page(page: str) -> Reader:
    """Check that a page is well-formed, without scripts or anything from elsewhere but links.

    What follows the document type must be one `html` element.
    """
    reader = Reader(page)
    assert page.startswith("<!DOCTYPE html>")
    assert not {"script", "img", "link", "iframe"} & reader.names()
    for name, attributes in reader.elements:
        for key, value in attributes.items():
            assert not key.startswith("on"), f"<{name} {key}>"
            if key in ("href", "src", "xlink:href"):
                neighbor = name == "a" and value.endswith(".html") and ":" not in value
                inside = neighbor or value.startswith(("#", "data:image/png;"))
                assert inside, f"<{name} {key}={value}>"
    return reader

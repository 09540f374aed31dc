"""Excel workbooks: .xlsx written here, .xls as xlwt wrote them, compressed."""

import base64
import pathlib
import zipfile
import zlib
from xml.sax.saxutils import escape

_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def write_xlsx(path: pathlib.Path, *sheets: list[list[str | float]], merged: str = "") -> None:
    """Write sheets of rows of texts and numbers; merged is a range such as "A2:A3"."""
    numbers = range(1, len(sheets) + 1)
    with zipfile.ZipFile(path, "w") as file:
        overrides = "".join(
            f'<Override PartName="/xl/worksheets/sheet{n}.xml" '
            f'ContentType="{_TYPE}.worksheet+xml"/>'
            for n in numbers
        )
        file.writestr(
            "[Content_Types].xml",
            f'<Types xmlns="{_PACKAGE}/content-types">'
            '<Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
            f"{overrides}</Types>",
        )
        file.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" '
            f'Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        )
        names = "".join(f'<sheet name="S{n}" sheetId="{n}" r:id="r{n}"/>' for n in numbers)
        file.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{names}</sheets></workbook>',
        )
        targets = "".join(
            f'<Relationship Id="r{n}" Type="{_OFFICE}/worksheet" Target="worksheets/sheet{n}.xml"/>'
            for n in numbers
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{_PACKAGE}/relationships">{targets}</Relationships>',
        )
        for number, rows in enumerate(sheets, start=1):
            merge = f'<mergeCells><mergeCell ref="{merged}"/></mergeCells>' if merged else ""
            data = "".join(_row(at, row) for at, row in enumerate(rows, start=1))
            file.writestr(
                f"xl/worksheets/sheet{number}.xml",
                f'<worksheet xmlns="{_MAIN}"><sheetData>{data}</sheetData>{merge}</worksheet>',
            )


def _row(at: int, row: list[str | float]) -> str:
    cells = []
    for column, value in enumerate(row):
        name = f"{chr(ord('A') + column)}{at}"
        if isinstance(value, str):
            text = escape(value)
            cells.append(
                f'<c r="{name}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
            )
        else:
            cells.append(f'<c r="{name}"><v>{value}</v></c>')
    return f'<row r="{at}">{"".join(cells)}</row>'


def write_xls(path: pathlib.Path, compressed: str) -> None:
    """Write one of the workbooks below."""
    path.write_bytes(zlib.decompress(base64.b64decode(compressed)))


# One column without a name: "a grand film", "a warm film" and the number 3.
FILMS = (
    "eNq7cF7wwcKNUg8Z0IAdAzPDv/+cDGxIYoxAzAnjCDAA5f//BzFhNAcQ/x8FQwpwcgAjko2VYTfvGXZQHILi+yEDE8"
    "MGloNAkoHhERDHMBQw+OXnpSrQETiB3ZDICHKDLZBkZJgDFOFjkAS7SghMJoNJYTC5HqxyD5h0AIv0gklboNoHjFEM"
    "5+39tCygqTiCSQksx8cAMnc7WM8tsIghgyjDCVAqrp/ACFHLyuBYlJmYMzgl5Fh4GJYwAOPNPTUvtSgx5wGDCDAClz"
    "B8/a/AwPAFllMPKIyK01eckQEo/gNVnB2L+GQmFgaGBob/CeAE3gosXI8yQyI4+A+DKjhFgjAPA0OiQnpRYl6KQlpm"
    "Ti43iFueWJQL5nGBCmVwJhZAycS84MTNAyRTGPjBbEGwYQLAYvrPyo+XfJMC7OPBIg3gghtSvKuCXMTwn6ERpAOomQ"
    "8swwyX1wLr0AaTTWBTpcFsKTApAkyYQFotQBTKcGsGq2kBy6oB7TEGg8v26khsDSC79XXgDrnWx/aaQPY694dVIuuu"
    "2y9kUAKGSApQPwg2M+gw6jDOmgkCO+1hNCO0KLgLJiUxigUOJgGo2/9D6zB+hr8MXGCmIJgEqWDEooIRrIIRqoIJTU"
    "UdExdYTJABFEJ2TEIM20BcYNGDAFwMo2AUjIJRMApGwSgYBaNgFAwywAjtY4Ca+KCmPyu0+8AOHdf5C8T/RodJhi0I"
    "YsgHwhJgx9SVIQ9IFzFUkpR+xBhYGWFmMRKpBzZeCALhQNuLGLIZksDuyCY5/QK7f4zI/iFaowD1shCp9v8jxZ00th"
    "8AZFnCOA=="
)

# Columns text and label, rows p and q, under one text "good" in the merged cells A2:A3.
MERGED = (
    "eNrtWE1oE0EU/maSND+06aamQiuUUDBq7UW8eKlbBe3JUvWgiKCJWUQakhpyaL1YrTkKgifFS6EXL1Uv/qCIXsSDUN"
    "GDIAhJiydPQgse2qxv3s5KWntowBaV+ZZ58/bNm5m389683dn3c4nq9KPuGtbgIAKou1G0NMgElah/Y4HaXVexfh2h"
    "4hr8U4hGyJEtITxvexdWPlT+rkHiYfA1UWCeylmMYbhYcFJbiMNsQ0YoGwaICtwjSRxdbFUH0wtMtzF9wJovmA6y5C"
    "bTAdKtijOYs4f7DugoPi17uS0ONe4T7vOZJfvQibcqiq/eEp5uCIdKlzL5v7OhJ9iKGZDfhpyCU8rkq0iSA2ew5KaA"
    "RX+nvkoZ+dbKBUj+Y7U8vI78tgwCk3DPc4BXKLm+CXgOPrmMNHkZXEjpYrGYo6rsjJdJks9knTyFwhiVyzGVlXkXW6"
    "t2cRtHdyvRHNqZT3CMW5Snl+9//3AsO2KfY8kkZ24vv+9UJsHFNdWDOse5ha1i3T6me5le51F3MN/NNEn2Up0e6dTM"
    "0SnWucGtaZpnP+OjvauB30185dvxpz2VBXsP8bNDtSvJ2U/2NHppSXLUX11T6Bf94u4dhWe2XwudC74w7fotL0Skxc"
    "8l4eqXWDtWEGNZggXenVqdgNaXa/Rfkk1S6yttby2DWhvrjA7WFlofv9b+q55Leu9Y2YHHzA42vGVjMDAwMDAwMDAw"
    "MNgsCP1dH/DOGXzeUKeHsP6vs0Klbn6T/Lc4gSJdZTqYHkGB6hImmoqf7QgJfyyxwT7+/0KFUzR7CaPIsh2jTccvnf"
    "5E4/NsuKP157ZQs/PXm7Fzk+f/Cc2kxK4="
)

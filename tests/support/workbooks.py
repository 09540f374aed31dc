"""Excel workbooks: .xlsx, and .xls as xlwt wrote them, compressed."""

import base64
import pathlib
import zlib

import openpyxl


def write_xlsx(path: pathlib.Path, *sheets: list[list[str | float]], merged: str = "") -> None:
    """Write sheets of rows of texts and numbers; merged is a range such as "A2:A3"."""
    book = openpyxl.Workbook()
    book.remove(book.active)
    for number, rows in enumerate(sheets, start=1):
        sheet = book.create_sheet(f"S{number}")
        for row in rows:
            sheet.append(row)
        if merged:
            sheet.merge_cells(merged)
    book.save(path)


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

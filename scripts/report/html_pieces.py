"""Pieces of HTML."""

from html import escape


def table(head, rows, words=False):
    """Cells are HTML already. words: the cells are texts, aligned to the left and broken where they must; on a narrow
    screen such a row becomes a list of its cells, each after its column's head.
    """
    head_line = "<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"
    body = "".join(
        "<tr>" + "".join(f'<td data-head="{name}">{cell}</td>' for name, cell in zip(head, row)) + "</tr>"
        for row in rows)
    kind = ' class="words"' if words else ""
    return f'<div class="scroll"><table{kind}><thead>{head_line}</thead><tbody>{body}</tbody></table></div>'


def details(title, html):
    return f"<details><summary>{escape(title)}</summary>{html}</details>"


def verdict(good, text):
    return f'<span class="{"good" if good else "bad"}">{escape(text)}</span>'

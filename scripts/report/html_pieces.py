"""Pieces of HTML."""

from html import escape


def table(head, rows, words=False):
    """Cells are HTML already. words: the cells are texts, aligned to the left and broken where they must."""
    def line(cells, tag):
        return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    kind = ' class="words"' if words else ""
    return f'<div class="scroll"><table{kind}><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>'


def details(title, html):
    return f"<details><summary>{escape(title)}</summary>{html}</details>"


def verdict(good, text):
    return f'<span class="{"good" if good else "bad"}">{escape(text)}</span>'

"""Tables in Markdown, and the marks between which a page has them."""


def table(head, rows):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def between(page, name, text):
    """The page with this text between <!-- NAME --> and <!-- end NAME -->; None where it has no such place."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end {name.removeprefix('table ')} -->"
    if begin not in page or end not in page:
        return None
    return page[: page.index(begin) + len(begin)] + text.strip() + "\n" + page[page.index(end) :]

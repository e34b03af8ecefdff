"""Mends what the libraries beneath write and axe objects to."""

#: ARIA has withdrawn the role that docutils gives to each entry of the bibliography.
WITHDRAWN, INSTEAD = ' role="doc-biblioentry"', ' role="listitem"'


def mend(app, page, template, context, doctree):
    if "body" in context:
        context["body"] = context["body"].replace(WITHDRAWN, INSTEAD)


def setup(app):
    app.connect("html-page-context", mend)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

"""What the pages share that are drawn from a record: `gpu_page` and `mutants_page`."""

from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList


class RecordPart(Directive):
    """A part of a record, by its file and name; the content stands there while there is none.

    A page has its `parts`, functions from the record to pieces of Markdown; how to `read` a
    file; and the `wrong` that this raises, with a sentence, for what is no record.
    """

    required_arguments = 2
    has_content = True
    parts, wrong = {}, ValueError

    def run(self):
        env = self.state.document.settings.env
        self.page = Path(env.doc2path(env.docname))
        path = (self.page.parent / self.arguments[0]).resolve()
        env.note_dependency(str(path))
        if not path.exists():
            return [self.parse(self.content)]
        try:
            shown = list(self.parts[self.arguments[1]](self.read(path)))
        except self.wrong as wrong:
            # one part says it, the others have nothing to show
            if env.temp_data.setdefault(f"{self.name}-refused", self.lineno) != self.lineno:
                return []
            raise self.error(str(wrong)) from None
        return [self.show(one) for one in shown] or [self.parse(self.content)]

    def read(self, path):
        raise NotImplementedError

    def show(self, markdown):
        return self.parse(markdown.splitlines())

    def parse(self, lines):
        box = nodes.container(classes=[self.name])
        self.state.nested_parse(StringList(list(lines), source=str(self.page)), 0, box)
        return box


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def escaped(words):
    """Words of a program as code, whatever they hold."""
    return "`` " + words.replace("``", "` `") + " ``"

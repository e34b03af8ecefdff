r"""Write the quizzes for learning platforms, in Moodle's format GIFT and as a QTI 2.1 package.

The pages `book/teaching/quiz-N.md` are the only source.  A formula becomes LaTeX text, `\( … \)`,
which the platforms typeset.  A link leads to the site, or is plain text if the site has no address.
"""

import re
from collections import namedtuple
from html import escape
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tools.addresses import site_address
from tools.colab import with_links
from tools.files import ROOT, demand, write, write_zip

PAGES = sorted((ROOT / "book" / "teaching").glob("quiz-*.md"))
QUESTION = re.compile(r"^## (\d)\. (.+)$", re.M)
ANSWER = re.compile(
    r"^:::\{dropdown\} (?P<text>.+)\n:class-container: quiz-(?P<kind>right|wrong)\n\n"
    r"(?P<why>.+)\n:::$",
    re.M,
)
CLAIM = re.compile(r"\[(\d{3}-\d{2})\]")

READER = MarkdownIt("commonmark").use(dollarmath_plugin)
LATEX = lambda _, tokens, at, *__: rf"\({escape(tokens[at].content)}\)"
READER.add_render_rule("math_inline", LATEX)
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True, lstrip_blocks=True
)

Answer = namedtuple("Answer", "name text right why")
Question = namedtuple("Question", "name title stem answers")
Quiz = namedtuple("Quiz", "name title questions")


def write_quizzes(folder):
    folder.mkdir(parents=True, exist_ok=True)
    quizzes = [read_quiz(path) for path in PAGES]
    write(folder / "quizzes.gift", "\n".join(map(gift, quizzes)))
    write_zip(folder / "quizzes-qti21.zip", "", qti(quizzes))


def read_quiz(path):
    """The quiz on a page; raises Fault if an answer is not written as the others are."""
    head, *parts = QUESTION.split(path.read_text(encoding="utf-8").partition("## And now")[0])
    asked = zip(parts[::3], parts[1::3], parts[2::3])
    questions = [question(f"{path.stem}-{number}", title, text) for number, title, text in asked]
    return Quiz(path.stem, head.splitlines()[0].removeprefix("# "), questions)


def question(name, title, text):
    found = enumerate(ANSWER.finditer(text), 1)
    answers = [Answer(f"answer-{n}", a["text"], a["kind"] == "right", a["why"]) for n, a in found]
    whole = len(answers) == text.count("{dropdown}")
    demand(whole, f"{name}: one answer is not written as the others")
    return Question(name, title, text.partition(":::")[0].strip(), answers)


def html(markdown):
    """A line of Markdown as HTML that is also XML."""
    text = CLAIM.sub(r"[[claim \1](../book/claims.md#claim-\1)]", markdown)
    text = with_links(text.replace("../../notebooks/", ""), site_address(ROOT))
    return READER.renderInline(text)


def gift(quiz):
    """A quiz as a category of Moodle's question bank."""
    category = f"$CATEGORY: Where Did the Bias Go/{quiz.title}\n"
    return "\n".join([category, *map(gift_question, quiz.questions)])


def gift_question(question):
    safe = lambda text: re.sub(r"[\\~=#{}:]", r"\\\g<0>", text)  # they have a meaning in GIFT
    title, stem = safe(f"{question.name} {question.title}"), safe(html(question.stem))
    answers = [f"{'~='[a.right]}{safe(html(a.text))}#{safe(html(a.why))}" for a in question.answers]
    return "\n".join([f"::{title}::[html]{stem}{{", *answers, "}\n"])


def qti(quizzes):
    """The files of a QTI package, {name: bytes}."""
    xml = TEMPLATES.get_template("qti.xml", globals={"html": html}).module
    files = {"imsmanifest.xml": xml.manifest(quizzes)}
    for quiz in quizzes:
        files[f"{quiz.name}.xml"] = xml.test(quiz)
        files |= {f"{each.name}.xml": xml.item(each) for each in quiz.questions}
    return {name: text.encode() for name, text in files.items()}

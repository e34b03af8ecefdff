"""Quizzes ask at least five questions, with one right answer and reasons; the exports hold all."""

import re
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from html import unescape

import pytest

from tools.course import quizzes

QUIZZES = [quizzes.read_quiz(path) for path in quizzes.PAGES]
QUESTIONS = [question for quiz in QUIZZES for question in quiz.questions]
QTI = {"": "http://www.imsglobal.org/xsd/imsqti_v2p1"}
PACKAGE = {"": "http://www.imsglobal.org/xsd/imscp_v1p1"}
words = lambda element: "".join(element.itertext())


def test_a_quiz_has_questions_with_one_right_answer_and_reasons():
    place = lambda question: [answer.right for answer in question.answers].index(True)
    assert set(map(place, QUESTIONS)) == {0, 1, 2, 3}
    for quiz in QUIZZES:
        names = [f"{quiz.name}-{k}" for k in range(1, 1 + len(quiz.questions))]
        assert len(names) >= 5 and [question.name for question in quiz.questions] == names
        assert max(Counter(map(place, quiz.questions)).values()) <= 2, quiz.name
    for question in QUESTIONS:
        assert sorted(a.right for a in question.answers) == [False] * 3 + [True], question.name
        for answer in question.answers:
            assert answer.why.startswith("**Right.** " if answer.right else "**No.** "), answer
            # screen readers list the answers, and one that is only a formula would be empty there
            assert re.search(r"\w", re.sub(r"\$[^$]*\$", "", answer.text)), answer


def read_gift(text):
    """[(stem, [(right, text, reason)])], read as Moodle reads: first the escaped characters."""
    hidden = re.sub(r"\\(.)", lambda found: chr(0xE000 + ord(found[1])), text)
    shown = lambda part: re.sub("[\ue000-\ue0ff]", lambda found: chr(ord(found[0]) - 0xE000), part)
    plain = lambda part: words(ET.fromstring(f"<p>{shown(part)}</p>"))
    for block in hidden.strip().split("\n\n"):
        if not block.startswith("$CATEGORY: "):
            stem, answers = re.fullmatch(r"::[^:]+::\[html\]([^{]+)\{\n([^{}]+)\}", block).groups()
            found = re.findall(r"([=~])([^=~#]+)#([^=~#]+)\n", answers)
            assert answers == "".join(f"{sign}{a}#{why}\n" for sign, a, why in found)
            yield plain(stem), [(sign == "=", plain(a), plain(why)) for sign, a, why in found]


def read_item(item):
    """(stem, [(right, text, reason)]) of a QTI item; the reason is what the answer's score sets."""
    right = [value.text for value in item.findall("responseDeclaration//value", QTI)]
    reasons = {each.get("identifier"): words(each) for each in item.findall("modalFeedback", QTI)}
    outcome = {}
    for case in item.iterfind(".//responseIf", QTI):
        answer, score, reason = (value.text for value in case.iterfind(".//baseValue", QTI))
        assert (score == "1") == (answer in right)
        outcome[answer] = reasons[reason]
    choice = item.find("itemBody/choiceInteraction", QTI)
    assert choice.get("shuffle") == "true" and choice.get("maxChoices") == "1"
    texts = {each.get("identifier"): words(each) for each in choice.findall("simpleChoice", QTI)}
    answers = [(name in right, text, outcome[name]) for name, text in texts.items()]
    return words(choice.find("prompt", QTI)), answers


def test_both_exports_ask_the_questions_of_the_pages(tmp_path):
    quizzes.write_quizzes(tmp_path)
    with zipfile.ZipFile(tmp_path / "quizzes-qti21.zip") as archive:
        package = {name: ET.fromstring(archive.read(name)) for name in archive.namelist()}
    gift = list(read_gift((tmp_path / "quizzes.gift").read_text(encoding="utf-8")))
    assert gift == [read_item(package[f"{question.name}.xml"]) for question in QUESTIONS]
    assert len(gift) >= 30
    for (stem, answers), question in zip(gift, QUESTIONS):
        assert [right for right, *_ in answers] == [answer.right for answer in question.answers]
        found = [stem, *(part for _, *parts in answers for part in parts)]
        source = [question.stem, *(part for a in question.answers for part in (a.text, a.why))]
        for exported, markdown in zip(found, source, strict=True):
            formulas = re.findall(r"\$([^$]+)\$", markdown)
            assert re.findall(r"\\\((.+?)\\\)", exported) == formulas
            assert not re.search(r"\*\*|`|\]\(|&\w+;|\$", exported), exported
    # the package lists its files, and its tests list their questions
    listed = {e.get("href") for e in package["imsmanifest.xml"].iterfind(".//resource", PACKAGE)}
    assert listed == package.keys() - {"imsmanifest.xml"}
    for quiz in QUIZZES:
        refs = package[f"{quiz.name}.xml"].iterfind(".//assessmentItemRef", QTI)
        names = [question.name for question in quiz.questions]
        assert [each.get("identifier") for each in refs] == names


def test_gift_keeps_the_characters_that_have_a_meaning_in_it():
    written, read = r"a ~ b = c # d {e} f: $\nu$", r"a ~ b = c # d {e} f: \(\nu\)"
    answers = [quizzes.Answer("answer-1", written, True, written)]
    asked = quizzes.Question("quiz-9-1", written, written, answers)
    assert list(read_gift(quizzes.gift_question(asked))) == [(read, [(True, read, read)])]


@pytest.mark.parametrize("site", ["", "https://a.github.io/b"])
def test_links_lead_to_the_site_if_it_has_an_address(site, monkeypatch):
    monkeypatch.setattr(quizzes, "site_address", lambda root: site)
    html = quizzes.html("[Theorem 1](../../notebooks/01-a.ipynb#c) with $a<b$, [002-01]")
    assert words(ET.fromstring(f"<p>{html}</p>")) == r"Theorem 1 with \(a<b\), [claim 002-01]"
    linked = re.findall('href="(.+?)"', unescape(html))
    pages = ["notebooks/01-a.html#c", "book/claims.html#claim-002-01"]
    assert linked == [f"{site}/{page}" for page in pages if site]

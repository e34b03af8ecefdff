"""What each clause of a theorem rests on, read from the theorem's box.

The last part of a box lists the clauses of the statement, one in each line, with a mark:

    > *Evidence:*
    >
    > - the weights are the same: *checked*, “Theorem 3.2”
    > - only if: *by hand*, at $z = -b/2$ the norm of $z + b$ is minus that of $z$
    > - in bfloat16 as well: *measured*, “PASS  control: in evaluation b has no effect”

- *checked*: what is quoted is the title of a derivation that the page prints, whose first and last
  line say this clause, or stands in an exact instance (… ≠ …) that it prints; or it is the label
  of a theorem of another page.
- *by hand*: the line says how.
- *measured*: what is quoted stands in something that the page prints.

Whether a derivation says the clause, a reader judges; that it is there, `check_evidence` does.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass

MARKS = ("checked", "by hand", "measured")
FEWEST_WORDS = 5  # of a proof by hand
CLAUSE = re.compile(
    rf"(?P<words>.+?): \*(?P<mark>{'|'.join(MARKS)})\*, (?P<rests_on>.+)", re.DOTALL
)
QUOTED = re.compile(r"“([^”]+)”")
TITLE = re.compile(r"^(\S.*?)(?:, (?:base|step))?:\n {4}\S", re.MULTILINE)
LABELLED = re.compile(r"^((?:Theorem|Lemma|Proposition|Corollary) \S+) \(")


class EvidenceError(ValueError):
    """A clause without evidence, or a mark whose evidence the page does not print."""


@dataclass(frozen=True)
class Clause:
    words: str
    mark: str
    rests_on: str

    @property
    def quoted(self):
        """What the evidence quotes: titles of derivations, or printed words."""
        return QUOTED.findall(self.rests_on)


def read_clauses(bullets):
    """The clauses of a list in Markdown.  Raises EvidenceError for a bullet without a mark."""
    clauses = []
    for bullet in re.split(r"(?:^|\n)- ", bullets.strip())[1:]:
        bullet = " ".join(bullet.split())
        found = CLAUSE.fullmatch(bullet)
        if not found:
            raise EvidenceError(
                f"“{bullet}” has no mark; write “the clause: *checked*, “Theorem 3.2””, "
                "or *by hand*, or *measured*, with what it rests on."
            )
        clauses.append(Clause(**found.groupdict()))
    return tuple(clauses)


def printed(path):
    """Everything that the cells of a notebook print, pictures aside."""
    said = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            said += [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
    return "\n".join("".join(text) for text in said)


def titles(text):
    """The titles of the derivations in a printed text; of a labelled one its label as well."""
    found = set(TITLE.findall(text))
    return found | {label[1] for label in map(LABELLED.match, found) if label}


def check_evidence(clauses, text, elsewhere=()):
    """Hold each mark to what the page prints.

    ``text`` is what the page prints, ``elsewhere`` the labels of the theorems of other pages.
    Raises EvidenceError for the first clause whose evidence is not there.
    """
    proved = titles(text) | set(elsewhere)
    instances = "\n".join(line for line in text.splitlines() if " ≠ " in line)
    for clause in clauses:
        if clause.mark == "by hand":
            if len(clause.rests_on.split()) < FEWEST_WORDS:
                raise EvidenceError(f"“{clause.words}” is proved by hand, and does not say how.")
            continue
        if not clause.quoted:
            raise EvidenceError(f"“{clause.words}” is {clause.mark}, and quotes no evidence.")
        for words in clause.quoted:
            measured = clause.mark == "measured"
            if not (words in text if measured else words in proved or words in instances):
                raise EvidenceError(
                    f"“{clause.words}” rests on “{words}”, which the page does not print."
                )


def counted(clauses):
    """How many clauses have which mark, in words."""
    count = Counter(clause.mark for clause in clauses)
    return ", ".join(f"{count[mark]} {mark}" for mark in MARKS if count[mark])

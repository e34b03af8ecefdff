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

import re
from collections import Counter, namedtuple

from files import demand

MARKS = ("checked", "by hand", "measured")
FEWEST_WORDS = 5  # of a proof by hand
CLAUSE = re.compile(rf"(.+?): \*({'|'.join(MARKS)})\*, (.+)", re.DOTALL)
QUOTED = re.compile(r"“([^”]+)”")
TITLE = re.compile(r"^(\S.*?)(?:, (?:base|step))?:\n {4}\S", re.MULTILINE)
LABELLED = re.compile(r"^((?:Theorem|Lemma) \S+) \(")

Clause = namedtuple("Clause", "words mark rests_on")


def read_clauses(bullets):
    """The clauses of a list in Markdown.  Raises Fault for a bullet without a mark."""
    clauses = []
    for bullet in re.split(r"(?:^|\n)- ", bullets.strip())[1:]:
        bullet = " ".join(bullet.split())
        found = CLAUSE.fullmatch(bullet)
        demand(
            found,
            f"“{bullet}” has no mark; write “the clause: *checked*, “Theorem 3.2””, "
            "or *by hand*, or *measured*, with what it rests on",
        )
        clauses.append(Clause(*found.groups()))
    return tuple(clauses)


def check_evidence(clauses, text, elsewhere=()):
    """Hold each mark to what the page prints.

    ``text`` is what the page prints, ``elsewhere`` the labels of the theorems of other pages.
    Raises Fault for the first clause whose evidence is not there.
    """
    titles = set(TITLE.findall(text))
    proved = titles | {label[1] for label in map(LABELLED.match, titles) if label} | {*elsewhere}
    instances = "\n".join(line for line in text.splitlines() if " ≠ " in line)
    for words, mark, rests_on in clauses:
        quoted = QUOTED.findall(rests_on)
        if mark == "by hand":
            enough = len(rests_on.split()) >= FEWEST_WORDS
            demand(enough, f"“{words}” is proved by hand, and does not say how")
        else:
            demand(quoted, f"“{words}” is {mark}, and quotes no evidence")
        for quotation in quoted if mark != "by hand" else ():
            there = quotation in proved or quotation in instances
            there = quotation in text if mark == "measured" else there
            demand(there, f"“{words}” rests on “{quotation}”, which the page does not print")


def counted(clauses):
    """How many clauses have which mark, in words."""
    count = Counter(clause.mark for clause in clauses)
    return ", ".join(f"{count[mark]} {mark}" for mark in MARKS if count[mark])

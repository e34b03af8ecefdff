"""Makes one mistake at a time in the checker's own source, and says whether a test notices it.

A mutant is a module of `notebooks/derivation` with one edit.  It is never written to a file: a
forked child of this process loads the package with that module changed, and runs the tests.
Only tests that reach the edit are run, the quickest first, in two rounds:

- alone: the torch alarm is off, and a refusal looks for no counterexample.  What decides whether
  a line is accepted has to be noticed here, by proofs and refusals alone;
- with torch: for what the first round missed, every test that has to do with the package.

Which tests reach a line is measured before, in each round, on the checker as it is; a test that
fails then is not used in that round.  The random tests (test_fuzz, test_mutations) are not asked:
what one seed finds another may miss.

Edits are those of `operators`, and a few more for decisions, below.  Not edited is

- what only prints: the modules and functions in PRINTS.  A theorem is its two sides, whatever
  their print; and the print of each line of the book is compared with what is stored;
- what is ELSEWHERE: which versions and which device there are;
- the wording of a refusal: what stands inside a `raise`, and what is computed for that alone.
  That it is raised is edited: the whole statement is deleted.

Hypothesis does not make failing examples smaller here; a failure is all that is wanted.
"""

import ast
import importlib.abc
import importlib.util
import itertools
import json
import os
import re
import resource
import signal
import sys
import tempfile
import textwrap
import time
from functools import partial
from operator import itemgetter
from pathlib import Path

from .notebooks import in_a_child
from .operators import KINDS, TURNED, Mutant, Text, called, compiles
from .record import ROOT, SURVIVED, TIMED_OUT, Tried, digest, place

PACKAGE = ROOT / "notebooks" / "derivation"
TESTS = ROOT / "tests"
#: Modules and functions that only print, or word a sentence.
PRINTS = re.compile(
    r"display|printing|sizes_told|notation|goals|__init__"  # modules
    r"|_?show\w*|__repr__|__str__|_repr_latex_|assumptions|reason_text|title"
    r"|_title|_refusal|_independence|_shape|_lines|_both|_name|_names|_print_Exp1|_array|_used"
)
#: What depends on what is installed and on an accelerator; its tests pretend to have one.
ELSEWHERE = re.compile(r"versions|start|_accelerator|_lack|_first_line")
PRINTED = ("show", "latex")  # keyword arguments
ALONE = ("derivation/lines", "derivation/kernel", "derivation/normal_form",
         "derivation/citations", "derivation/conditions", "derivation/definitions",
         "derivation/inductions", "derivation/random_letters", "derivation/names",
         "derivation/the_book")  # fmt: skip
WITH_TORCH = ("derivation/lines", "derivation/alarm", "derivation/operations",
              "derivation/counterexamples", "derivation/print", "derivation/misuse", "checks",
              "redundancy/jacobian")  # fmt: skip
FILES = tuple(dict.fromkeys((*ALONE, *WITH_TORCH)))
ROUNDS = {"alone": ALONE, "with torch": WITH_TORCH}
#: These tests search for counterexamples, at length; only mutants of these modules have to pass them.
SEARCHES, SEARCHING = "test_and_it_really_is_false", ("counterexamples", "evaluation")
#: Seconds of processor time that a test may take: so many, and so many times what it took before.
SECONDS, TIMES = 10, 10
CONTROLS = 60  # tests that each module has to pass when it is loaded without a change
LONGEST = 1200  # seconds of processor time for all tests of a mutant
clock = time.process_time  # which the tests do not get to see
STRICTER = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">")}


class SuiteFails(Exception):
    """The tests do not run, or do not pass, on the checker as it is; says how."""


# ---- the mistakes -------------------------------------------------------------------------------


def modules():
    """The names of the modules that are edited."""
    found = [path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py")]
    return sorted(".".join(path.parts) for path in found if not is_left(path.stem))


def test_file(name):
    """The file of the tests of a name, such as derivation/kernel_rules."""
    folder, _, name = name.rpartition("/")
    return TESTS / folder / f"test_{name}.py"


def is_left(name):
    """Whether a module or a function of that name is left as it is."""
    return PRINTS.fullmatch(name) or ELSEWHERE.fullmatch(name)


def path_of(module):
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py")


def source_of():
    """A digest of what the outcome depends on: the package, its tests, and what edits it."""
    here = [Path(__file__), Path(__file__).with_name("operators.py")]
    tests = [test_file(name) for name in sorted(FILES)]
    files = [*sorted(PACKAGE.rglob("*.py")), *tests, *here]
    return digest(*(file.read_text(encoding="utf-8") for file in files))


def decisions(node, text):
    """Further edits, under the kinds that they are most like: (kind, edit).

    A condition is negated, a verdict turned, `all` exchanged for `any` and `and` for `or`, and a
    bound that is excluded is included.
    """
    tests = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While) else []
    tests += node.ifs if isinstance(node, ast.comprehension) else []
    for test in tests:
        if not isinstance(test, ast.UnaryOp) and not _single_comparison(test):
            yield "a comparison turned", text.instead(test, f"(not ({text.of(test)}))")
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Constant):
        if isinstance(node.value.value, bool):
            yield "a comparison turned", text.instead(node.value, str(not node.value.value))
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("all", "any"):
        other = {"all": "any", "any": "all"}[node.func.id]
        yield "an operator exchanged", text.instead(node.func, other)
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for edit in text.symbol(*node.values[:2], old, new):
            yield "an operator exchanged", edit
    if isinstance(node, ast.Compare):
        terms = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, terms, terms[1:]):
            if type(operator) in STRICTER:
                for edit in text.symbol(left, right, *STRICTER[type(operator)]):
                    yield "off by one", edit


def _single_comparison(test):
    known = (*TURNED, ast.In, ast.NotIn, ast.Is, ast.IsNot)
    return isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], known)


#: A delta is symmetric; an expression has either of two kinds; bounds of a draw.
NO_ORDER = {"Delta", "has", "uniform"}
#: What an operator of the notebooks is called when it finds the same in the checker.
OTHERWISE = {
    "a mask inverted": "an operator exchanged",  # here & and | join sets
    "a bias left out": "a term or factor dropped",
}


def edits_of(source):
    """(kind, edit) of every mutant, each edit once."""
    text, seen = Text(source), set()
    words = only_worded(text)
    for node in text.nodes:
        if is_out(node, text, words):
            continue
        kinds = [kind for kind in KINDS if makes_sense(kind, node, text)]
        found = [
            (OTHERWISE.get(kind, kind), edit) for kind in kinds for edit in KINDS[kind](node, text)
        ]
        for kind, edit in [*found, *decisions(node, text)]:
            if edit not in seen and source[edit[0] : edit[1]] != edit[2]:
                seen.add(edit)
                yield kind, edit


def makes_sense(kind, node, text):
    """Whether a kind of mistake is one here: a table of the module or a field is a definition,
    which is not deleted; and what has no order is not swapped."""
    if kind == "a statement deleted":
        of_a_module = isinstance(text.parent.get(node), ast.Module)
        return not of_a_module and not isinstance(node, ast.AnnAssign)
    unordered = isinstance(node, ast.Call) and called(node) in NO_ORDER
    return kind != "arguments swapped" or not unordered


def mutants_of(source):
    """Every mutant of a piece of the checker."""
    text = Text(source)
    mutants = (text.edited(kind, edit) for kind, edit in edits_of(source))
    return [mutant for mutant in mutants if compiles(mutant.source)]


def is_out(node, text, words):
    """Whether a node is left as it is: part of a print, or of the wording of a refusal."""
    above = text.parent.get(node)
    if isinstance(node, ast.FunctionDef) and is_left(node.name):
        return True
    if isinstance(node, ast.keyword) and node.arg in PRINTED:
        return True
    if isinstance(node, ast.Call) and called(node) == "Reason":
        return True  # how a reason prints that was checked
    if isinstance(above, ast.Raise) or (isinstance(node, ast.stmt) and node in words):
        return True
    return above is not None and is_out(above, text, words)


def only_worded(text):
    """The assignments to names that a function uses inside `raise` and such assignments only."""
    words = set()
    for function in (node for node in text.nodes if isinstance(node, ast.FunctionDef)):
        while True:
            more = {
                node for node in ast.walk(function)
                if isinstance(node, ast.Assign) and node not in words
                and _read_in_words_only(node, function, words)
            }  # fmt: skip
            if not more:
                break
            words |= more
    return words


def _read_in_words_only(assignment, function, words):
    names = {t.id for t in assignment.targets if isinstance(t, ast.Name)}
    if len(names) < len(assignment.targets):
        return False
    worded = {
        inner for node in ast.walk(function)
        if isinstance(node, ast.Raise) or node in words for inner in ast.walk(node)
    }  # fmt: skip
    reads = [
        node for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names
    ]  # fmt: skip
    return bool(reads) and all(node in worded for node in reads)


def pieces(module):
    """{name of a function or method, or of a statement of the module: its text}"""
    source = path_of(module).read_text(encoding="utf-8")
    return {name: text for name, _, _, text in _pieces(source)}


def _pieces(source):
    """(name, first line, last line, text) of what a module consists of."""
    lines = source.splitlines(keepends=True)

    def inside(body, owner=""):
        for node in body:
            name = getattr(node, "name", None) or f"line of {owner.rstrip('.') or 'the module'}"
            if isinstance(node, ast.Assign):
                name = ast.unparse(node.targets[0])
            if isinstance(node, ast.ClassDef):
                yield from inside(node.body, f"{owner}{node.name}.")
            else:
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                text = textwrap.dedent("".join(lines[first - 1 : node.end_lineno]))
                yield owner + name, first, node.end_lineno, text

    return list(inside(ast.parse(source).body))


def drawn(count, seed, names=None):
    """{module: (how many mutants there are, those drawn)}: to each module by its length.

    Each kind in its turn, so that a rare mistake is tried as often as a frequent one.  The lot of
    a mutant depends on itself alone: a change of the module hardly changes what else is drawn.
    """
    sources = {name: path_of(name).read_text(encoding="utf-8") for name in modules()}
    length = sum(source.count("\n") for source in sources.values())
    found = {}
    for name in names or sources:
        wanted = max(1, round(count * sources[name].count("\n") / length))
        in_turn = _in_turn(sources[name], f"{seed}:{name}")
        compiling = (mutant for mutant in in_turn if compiles(mutant.source))
        chosen = itertools.islice(compiling, wanted)
        found[name] = len(in_turn), sorted(chosen, key=lambda mutant: mutant.line)
    return found


def _in_turn(source, seed):
    """The mutants of a module by their lots, one of each kind after the other."""
    text, by_kind = Text(source), {}
    for mutant in (text.edited(kind, edit) for kind, edit in edits_of(source)):
        lot = digest(seed, mutant.kind, mutant.before, mutant.after)
        by_kind.setdefault(mutant.kind, []).append((lot, mutant.line, mutant))
    queues = [sorted(by_kind[kind], key=itemgetter(0, 1))
              for kind in sorted(by_kind, key=partial(digest, seed))]  # fmt: skip
    return [one[2] for turn in itertools.zip_longest(*queues) for one in turn if one]


# ---- a package with a mistake in it -------------------------------------------------------------


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module of the package, and makes it of another source than the file's."""

    def __init__(self, module, mutant):
        self.name, self.path = f"{PACKAGE.name}.{module}", path_of(module)
        self.code = compile(mutant.source, str(self.path), "exec")

    def find_spec(self, fullname, path=None, target=None):
        if fullname == self.name:
            return importlib.util.spec_from_file_location(fullname, self.path, loader=self)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(self.code, vars(module))


# ---- the tests ----------------------------------------------------------------------------------


class TooLong(BaseException):
    """A test took many times the processor time that it takes on the checker as it is."""


def be_patient(seconds):
    """Raises TooLong in this process when it has worked so long; again every second from then."""

    def late(number, frame):
        raise TooLong

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)


class Chosen:
    """A plugin: some tests only, in an order; stops at the first failure and keeps it."""

    def __init__(self, took):
        self.took, self.failure = took, ""  # took: {test: seconds}, in the order to run them

    def pytest_collection_modifyitems(self, items):
        order = {test: number for number, test in enumerate(self.took)}
        items[:] = sorted((i for i in items if i.nodeid in order), key=lambda i: order[i.nodeid])

    def pytest_runtest_logstart(self, nodeid):
        be_patient(SECONDS + TIMES * self.took[nodeid])

    def keep(self, report):
        if report.failed and not self.failure:
            how = "timed out in" if "TooLong" in str(report.longrepr) else "fails:"
            self.failure = f"{how} {report.nodeid}"

    pytest_runtest_logreport = pytest_collectreport = keep


class Measured:
    """A plugin: which tests pass, how long each takes, and which lines of the package it reaches."""

    def __init__(self, coverage):
        self.coverage, self.took, self.failed = coverage, {}, set()

    def pytest_runtest_logstart(self, nodeid):
        forget()
        self.coverage.switch_context(nodeid)
        self.took[nodeid] = clock()

    def pytest_runtest_logreport(self, report):
        self.failed |= {report.nodeid} if report.failed else set()

    def pytest_runtest_logfinish(self, nodeid):
        self.took[nodeid] = clock() - self.took[nodeid]
        self.coverage.switch_context("")


def forget():
    """What the package remembers of earlier tests, which would hide what a test reaches."""
    from derivation import proofs

    proofs.forget()


def warm():
    """Imports what the tests need, without the package under test."""
    import hypothesis
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import sympy  # noqa: F401
    import torch

    torch.set_num_threads(1)
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("no smaller", phases=phases)
    hypothesis.settings.load_profile("no smaller")
    for folder in (ROOT / "notebooks", TESTS):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    if PACKAGE.name in sys.modules:
        raise SuiteFails("the package is imported already: a mutant of it would not be loaded")


def asked(round_, files, plugin):
    """Runs test files in this process, as a round has it; pytest's exit code."""
    import pytest

    ticks = itertools.count()  # how long a proof takes is not the question here
    time.process_time = lambda: float(next(ticks))
    if round_ == "alone":
        from derivation import proofs, steps

        proofs.torch_is_here = lambda: False
        steps.SEARCH_AFTER_A_REFUSAL = 0
    os.chdir(ROOT)
    paths = [str(test_file(name)) for name in files]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:nbval", "--rootdir", str(ROOT),
               "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is warm  # fmt: skip
    return pytest.main([*options, *paths], plugins=[plugin])


def reached(round_, files):
    """The tests of a round: {test: seconds}, and {module: {line: its tests, "" for import}}."""
    with tempfile.NamedTemporaryFile("r") as kept:

        def work():
            import coverage

            cov = coverage.Coverage(data_file=None, include=[f"{PACKAGE}/*"], config_file=False)
            cov.start()
            plugin = Measured(cov)
            code = asked(round_, files, plugin)
            cov.stop()
            if code not in (0, 1) or len(plugin.failed) > len(plugin.took) / 5:
                return f"{len(plugin.failed)} tests fail, {round_}: {sorted(plugin.failed)[:3]}"
            data = cov.get_data()
            lines = {name: data.contexts_by_lineno(str(path_of(name))) for name in modules()}
            took = {t: seconds for t, seconds in plugin.took.items() if t not in plugin.failed}
            Path(kept.name).write_text(json.dumps([took, lines]))
            return ""

        fate, words = in_a_child(work, LONGEST)
        if fate != SURVIVED:
            raise SuiteFails(words)
        took, lines = json.loads(kept.read())
    lines = {name: {int(n): set(c) for n, c in found.items()} for name, found in lines.items()}
    return took, lines


def tests_for(module, mutant, took, lines):
    """The tests that run the place of a mutant, the quickest first: {test: seconds}.

    Of a place that only importing the package or a test file runs: all tests.
    """
    contexts = set()
    for line in statement_lines(path_of(module).read_text(encoding="utf-8"), mutant.line):
        contexts |= lines[module].get(line, set())
    chosen = contexts & set(took) or (set(took) if contexts else set())
    if module not in SEARCHING:
        chosen = {test for test in chosen if SEARCHES not in test}
    return {test: seconds for test, seconds in sorted_by_time(took) if test in chosen}


def statement_lines(source, line):
    """The lines of the innermost statement around a line; of a compound one, its head."""
    inner = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= node.end_lineno:
            if inner is None or node.lineno >= inner.lineno:
                inner = node
    if inner is None:
        return [line]
    body = getattr(inner, "body", None)
    end = max(inner.lineno, body[0].lineno - 1) if body else inner.end_lineno
    if isinstance(inner, ast.FunctionDef) and body:
        return range(inner.lineno, inner.end_lineno + 1)  # a default of a parameter
    return range(inner.lineno, end + 1)


def fate_of(module, mutant, measured):
    """(fate, words) of a mutant: which test notices it, and in which round."""
    asked_ = 0
    for round_, (took, lines) in measured.items():
        tests = tests_for(module, mutant, took, lines)
        asked_ += len(tests)
        if not tests:
            continue

        def work(round_=round_, tests=tests):
            be_patient(6 * SECONDS)  # to import the package, and to collect
            plugin = Chosen(tests)
            try:
                sys.meta_path.insert(0, Changed(module, mutant))
                files = [
                    n for n in FILES if any(str(test_file(n).relative_to(ROOT)) in t for t in tests)
                ]
                asked(round_, files, stopping(plugin))
            except TooLong:
                return f"{round_}: timed out while importing"
            except Exception as error:
                return f"{round_}: {type(error).__name__} while importing"
            return plugin.failure and f"{round_}: {plugin.failure}"

        fate, words = in_a_child(work, LONGEST)
        if fate != SURVIVED:
            return (TIMED_OUT if "timed out" in words else fate), words
    return SURVIVED, f"{asked_} tests reach it" if asked_ else "no test reaches it"


def stopping(plugin):
    """The plugin, which also ends the run at its first failure."""
    keep = plugin.keep

    def stop(report):
        import pytest

        keep(report)
        if plugin.failure:
            pytest.exit(plugin.failure, returncode=1)

    plugin.pytest_runtest_logreport = plugin.pytest_collectreport = stop
    return plugin


def tried(names, drawn, rounds=ROUNDS):
    """(module, its entry in the record, None) of each; (module, None, why) where tests fail as it is."""
    name = names[0]
    try:
        measured = measure(rounds)
        for name in names:
            entry, _ = try_module(name, *drawn[name], measured)
            yield name, entry, None
    except SuiteFails as fails:
        yield name, None, str(fails)


def measure(rounds):
    """What each round's tests reach, on the checker as it is."""
    warm()
    return {round_: reached(round_, files) for round_, files in rounds.items()}


def try_module(module, possible, mutants, measured, tell=lambda words: None):
    """(the entry of a module in the record, [(mutant, fate, how it was noticed)])."""
    used = processor_time()
    accept_unchanged(module, measured)
    parts = _pieces(path_of(module).read_text(encoding="utf-8"))
    found, told = [], []
    for mutant in mutants:
        piece, text = next(
            (name, text) for name, first, last, text in parts if first <= mutant.line <= last
        )
        fate, words = fate_of(module, mutant, measured)
        found.append(Tried(piece, digest(text), mutant, fate))
        told.append((mutant, fate, words))
        tell(f"{piece}, line {mutant.line}, {mutant.kind}: {fate} ({words})")
        if fate == SURVIVED:
            tell(f"    - {mutant.before}\n    + {mutant.after}")
    return place(source_of(), possible, processor_time() - used, found), told


def processor_time():
    """What the children of this process used so far, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def accept_unchanged(module, measured):
    """The control: a module loaded like a mutant, and not changed, passes the quickest tests."""
    source = path_of(module).read_text(encoding="utf-8")
    quickest = {
        round_: (dict(itertools.islice(sorted_by_time(took), CONTROLS)), {module: {1: set(took)}})
        for round_, (took, _) in measured.items()
    }
    fate, words = fate_of(module, Mutant("none", 1, "", "", source), quickest)
    if fate != SURVIVED:
        raise SuiteFails(words)


def sorted_by_time(took):
    return sorted(took.items(), key=lambda test: test[::-1])

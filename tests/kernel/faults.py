"""Deliberate faults in the kernel, one or more for each of its parts.

A fault is a change of one function: ``old`` in its source becomes ``new``.  Each names a check of
``examination`` that notices it: an example that passes on the kernel as it is, and fails then.
"""

import contextlib
import inspect
import sys
import textwrap
from dataclasses import dataclass

from derivation import proofs, vocabulary
from derivation.kernel import conditions, normal, polynomials, rules, sorts, sums, terms

MODULES = {m.__name__.rpartition(".")[2]: m
           for m in (terms, sorts, conditions, polynomials, sums, normal, rules)}  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """``rule`` is a function of the kernel: module.function or module.Class.method."""

    rule: str
    old: str
    new: str
    noticed_by: str


def faulty(fault):
    """(the places of a function, what it is without and with the fault)."""
    module, *path = fault.rule.split(".")
    owner = MODULES[module]
    original = vars(owner)[path[0]]
    if len(path) == 2:
        owner, original = original, vars(original)[path[1]]
    source = textwrap.dedent(inspect.getsource(original))
    assert source.count(fault.old) == 1, (
        f"{fault.rule} holds {fault.old!r} {source.count(fault.old)} times"
    )
    made = {}
    exec(source.replace(fault.old, fault.new), vars(MODULES[module]), made)
    (function,) = made.values()
    if len(path) == 2:
        return [(owner, path[1])], original, function
    loaded = [
        m for name, m in sys.modules.items() if name.split(".")[0] in ("derivation", __package__)
    ]
    places = [(m, key) for m in loaded for key, item in list(vars(m).items()) if item is original]
    return places, original, function


@contextlib.contextmanager
def planted(fault):
    """The kernel with the fault in it, and nothing remembered from before."""
    places, original, function = faulty(fault)
    entries = [(t, key) for t in (sorts.BINDING,) for key, item in t.items() if item is original]
    try:
        forget()
        for where, key in places:
            setattr(where, key, function)
        for table, key in entries:
            table[key] = function
        yield
    finally:
        for where, key in places:
            setattr(where, key, original)
        for table, key in entries:
            table[key] = original
        forget()


def forget():
    """What is remembered of earlier proofs; the words of the vocabulary are read without a fault."""
    for word in vars(vocabulary).values():
        if isinstance(word, vocabulary.Word):
            assert word.terms
    proofs.forget()


F = Fault
FAULTS = {
    # terms
    "what is put in is not lifted": F("terms.put", "_lift(letters[t], depth)", "letters[t]", "true: tr PQ = tr QP"),
    "a value is not lifted": F("terms.put", "_lift(values[n - 1 - k], depth)", "values[n - 1 - k]", "rule: a_definition_written_out_under_a_binder_is_the_same"),
    "values are put in backwards": F("terms.put", "values[n - 1 - k]", "values[k]", "true: shift"),
    "binders further out are not counted down": F("terms.put", "depth + k - n", "k", "rule: what_is_bound_further_out_stays_bound"),
    "a permutation is put in the wrong way round": F("terms.put", "if t.op == \"app\" or t.args[1] == 1", "if True", "rule: what_stands_for_a_permutation_is_one"),
    "lifting forgets the floor": F("terms._lift", "floor + more", "floor", "rule: a_definition_written_out_under_a_binder_is_the_same"),
    "the inverse keeps its direction": F("terms.inverse", "-body.args[1]", "body.args[1]", "theorem: transposed_permutation_rows_and_columns"),
    "binders forget the order of their letters": F("terms._bound", "enumerate(reversed(letters))", "enumerate(letters)", "true: shift"),
    "the row before is the row after": F("terms.unfolded", "at.args[0], *data)]", "at, *data)]", "theorem: online_softmax_by_induction"),
    "all letters are made alike": F("terms.fresh", 'f"#{next(_serial)}"', '"#0"', "true: a permutation undone"),
    "names may be anything": F("terms.is_name", "name[:1].isalpha() and", "True or", "kernel: names_mean_one_thing"),
    # sorts
    "positions of any ranges are compared": F("sorts._simple", "len({*sorts}) == 1", "True", "rule: positions_of_one_range_are_compared"),
    "any number of arguments": F("sorts._application", "len(arguments) == len(sorts)", "True", "rule: a_letter_takes_what_its_sort_says"),
    "a definition may hide letters": F("sorts.check_word", "not hidden", "True", "kernel: a_word_hides_nothing"),
    "a draw may stand anywhere": F("sorts.check_sort", "need(draws,", "need(True,", "rule: the_law_of_a_draw_is_a_letter"),
    "a variance may be negative": F("sorts.check_sort", "need(sign(full(variance)),", "need(True,", "rule: a_variance_is_at_least_0"),
    "permutations of numbers": F("sorts._move", "moves = sort.op == \"FUN\" and sort.args[0] == \"perm\" and way in (1, -1)", "moves = True", "kernel: a_permutation_is_one_of_positions_and_has_a_name"),
    "any number is positive": F("sorts.fits", 'sort != POSITIVE or sign(full(a)) == "+"', "True", "kernel: a_positive_letter_stands_for_what_is_evidently_positive"),
    "any matrix is a mask": F("sorts.fits", 'kind == "any" or', "True or", "rule: a_mask_stands_for_a_mask"),
    "any function is a permutation": F("sorts.fits", "check(body) == result and inverse(a)", "True", "rule: what_stands_for_a_permutation_is_one"),
    "a block of another size": F("sorts._case", "fits(fun(pos(block)), f)", "pass", "rule: the_blocks_of_a_case_are_those_of_its_range"),
    "letters are masks": F("sorts.is_mask", 'kind_of(t) == "mask"', 'kind_of(t) in ("mask", "any")', "false: A ⊙ A = A"),
    "a product with a mask is a mask": F("sorts.is_mask", "all(map(is_mask, t.args))", "any(map(is_mask, t.args))", "soundness: what_is_positive_and_what_is_not_negative_by_its_form"),
    "a root is positive": F("sorts.sign", 'sign(args[0]) if op == "sqrt" or sign(args[0]) == "+" else None', '"+"', "kernel: a_positive_letter_stands_for_what_is_evidently_positive"),
    "an odd power is at least 0": F("sorts.sign", 'args[1] % 2 == 0', "True", "rule: an_odd_power_has_any_sign"),
    "a sum with a positive term is positive": F("sorts.sign", "None if None in below else", "None if not below else", "kernel: a_positive_letter_stands_for_what_is_evidently_positive"),
    "a product with a positive factor is positive": F("sorts.sign", 'some = any if op == "add" else all', "some = any", "true: M ⊙ masked softmax"),
    "every cut sum is positive": F("sorts._reaches", 'marks[0] not in others[0].letters', "True", "rule: a_cut_that_turns_with_its_index_may_be_empty"),
    # conditions
    "a quotient needs nothing": F("conditions.conditions", '{"inv": NONZERO, ', '{', "true: M ⊙ masked softmax"),
    "a root needs nothing": F("conditions.conditions", '"sqrt": NONNEGATIVE, ', '', "rule: normal_forms_bring_what_they_divide_by"),
    "definitions divide by nothing": F("conditions.conditions", "if written is not None:", "if False:", "true: M ⊙ masked softmax"),
    "what is bound divides by nothing": F("conditions.under", "for_all(marks, conditions(body, words) + sorts)", "[]", "true: rows that sum to 1"),
    "draws may be divided by": F("conditions.under", "need(not random,", "need(True,", "soundness: what_is_divided_by_under_a_mean_may_be_fixed_and_not_random"),
    "a condition holds at one place": F("conditions.for_all", "m for m in marks if m in x.letters", "m for m in marks[:0]", "true: M ⊙ masked softmax"),
    "a smooth function may be bound": F("conditions.for_all", "need(not any(r == SMOOTH and x in marks for r, _, x in triples),", "need(True,", "kernel: a_smooth_function_stays_free"),
    "every function has a derivative": F("conditions._smooth", 'found = [(SMOOTH, (), head)] if t.op == "app" else []', "found = []", "true: f(sx) twice"),
    "relu has a derivative everywhere": F("conditions._smooth", 'or t.op == "call" and head == "relu"', "", "true: d/ds of relu"),
    "what is at least 0 is not 0": F("conditions.holds", 'value == "+" or', 'value in ("+", "0") or', "true: M ⊙ masked softmax"),
    # polynomials
    "a sum loses a term": F("polynomials.plus", "total.get(m, 0) + c", "c", "true: shift"),
    "a quotient forgets a numerator": F("polynomials._quotient", "n ** int((e - least) * q) *", "1 *", "false: one number for each key"),
    # sums
    "an unused range is not counted": F("sums.Sums._separated", "for k in unused]", "for k in ()]", "true: E(RRᵀ)"),
    "constants are summed away": F("sums.Sums._separated", "self.product(outside), set(indices), []", "UNITY, set(indices), []", "true: shift"),
    "linked sums are separated": F("sums.Sums._separated", "not mine.isdisjoint(letters_of(part))]", "False]", "false: keys by π, values by its inverse"),
    "a delta puts the image for the inverse image": F("sums._undone", "inverse(abstract([_base(path)], path))", "abstract([_base(path)], path)", "theorem: transposed_permutation_rows_and_columns"),
    "counting is always on": F("sums.Sums._connected", "COUNT in self.laws and ", "", "line: counting missing"),
    "counting counts what turns with its index": F("sums.Sums._connected", " and k not in a.args[1].letters", "", "rule: counting_counts_what_stands_still"),
    "reindexing is always on": F("sums.Sums._connected", "indices if REINDEX in self.laws else", "indices if True else", "line: reindexing missing"),
    "reindexing loses a coefficient": F("sums.Sums._connected", "(c, product_term(m)) for m, c in", "(1, product_term(m)) for m, c in", "true: a sum reindexed, with a sign"),
    "every range is split": F("sums.Sums._sum_of", 'SPLIT in self.laws and size.op == "join"', 'size.op == "join"', "line: splitting missing"),
    "splitting forgets the second block": F("sums.Sums._at", "for new, there in places]", "for new, there in places[:1]]", "true: the identity in two blocks"),
    "a square of a sum is the sum": F("sums.Sums.unpacked", "[(a, e - 1)] * (e > 1)", "[]", "false: E[(Ra)³] = 0"),
    "a permutation undoes itself": F("sums.Sums.position", "(perm, -way)", "(perm, way)", "true: a permutation undone"),
    "the last position is in the first block": F("sums.Sums.position", 'Term("inr", first, self.position(Term("last", second)))', 'Term("inl", second, self.position(Term("last", first)))', "soundness: a_position_is_a_positive_number_and_may_be_divided_by"),
    "a second block is counted from its own start": F("sums.Sums._place", 'self._size(p.args[0]) if p.op == "inr" else {}', "{}", "theorem: online_softmax_by_induction"),
    "positions of two blocks coincide": F("sums.Sums._delta", "if p.op == q.op else {}", "if p.op == q.op else UNITY", "true: the identity in two blocks"),
    "every position is at most every other": F("sums.Sums._le", 'q.op == "last"', 'q.op in ("last", "let")', "true: L + Lᵀ - I"),
    "the second block comes first": F("sums.Sums._le", 'UNITY if p.op == "inl" else {}', '{} if p.op == "inl" else UNITY', "true: the causal mask in two blocks"),
    "moments are always on": F("sums.Sums._mean", "if MOMENTS in self.laws:", "if True:", "line: moments missing"),
    "a mean is of what it is of": F("sums.Sums._mean", 'if not any(d in x.letters for m in tied for x, _ in m for d in draws):', "if True:", "true: a number leaves a mean"),
    "an odd moment does not vanish": F("sums.Sums._moment", "return {} if entries else UNITY", "return UNITY", "theorem: moments_of_a_score"),
    "every variance is one": F("sums.Sums._moment", "self.poly(d.args[1].args[1]), *", "*", "theorem: moments_of_a_score"),
    "all entries are one draw": F("sums.Sums._moment", "*[self._delta(p, q) for p, q in pairs]", "", "true: E(RRᵀ)"),
    "a fourth moment is a second one": F("sums.Sums._moment", "if not plain or len(entries) > 2:", "if not plain:", "false: E[(Ra)³] = 0"),
    "zero has every moment": F("sums.Sums._moments", "if None in values:", "if None in values and {} not in values:", "false: E[R S⁴] = 0"),
    # normal forms
    "a step may be of any size": F("normal.Normal.product", "self.steps < MOST_STEPS", "True", "rule: a_step_has_an_end"),
    "letters are their own squares": F("normal.Normal.product", "is_mask(a)", 'a.op == "app"', "false: A ⊙ A = A"),
    "a delta is used up": F("normal.Normal._instead", "self.times(atom(a), self.poly(put(", "self.times(UNITY, self.poly(put(", "true: a permutation undone"),
    "a free position is put in the place of another": F("normal.Normal._instead", ' and x.args[0][0] == "#"', "", "kernel: a_delta_leaves_the_variance_of_a_draw_and_free_denominators_alone"),
    "a root is its own square": F("normal.Normal._instead", "square = self.power(self.poly(a.args[0]), e // 2)", "square = UNITY", "rule: normal_forms_bring_what_they_divide_by"),
    "a divisor loses its factor": F("normal.Normal.inverse", "1 / c)", "c)", "true: a half of a quotient"),
    "a sum is divided by term by term": F("normal.Normal.inverse", "if len(rest) > 1:", "if False:", "true: LN(τX, τ²ε)"),
    "what is taken out stays in": F("normal.Normal.content", "self.product([*m, *lower])", "self.product([*m])", "true: shift"),
    "a root of a negative number": F("normal.Normal._sqrt", "abs(c), scaled(rest, 1 if c > 0 else -1)", "abs(c), rest", "false: a root of −x"),
    "the exponential law is always on": F("normal.Normal._exp", "EXP not in self.laws", "False", "kernel: linearity_by_laws_that_are_not_named_is_refused"),
    "an exponential loses its sign": F("normal.Normal._exp", "product_term(m)), c)", "product_term(m)), abs(c))", "theorem: online_softmax_by_induction"),
    "the cosine of a sum has a plus": F("normal.Normal._of_a_sum", "scaled(self.times(sin(a), sin(b)), -1)", "self.times(sin(a), sin(b))", "line: cos of a difference with the wrong sign"),
    "angles always add": F("normal.Normal._call", "ANGLE in self.laws and len(p) > 1", "len(p) > 1", "line: angle addition missing"),
    "the sine is even": F("normal.Normal._call", "PARITY[name] if turned else 1", "1", "true: tanh is odd"),
    "relu is linear": F("normal.Normal._relu", "1 if c > 0 else -1", "1", "false: relu is even"),
    "all arguments of a word are one": F("normal.Normal._app", "*map(self.argument, arguments)", "*map(self.argument, arguments[:1])", "true: M ⊙ masked softmax"),
    "cases forget their position": F("normal.Normal._case", "first if at.op == \"inl\" else second", "first", "true: the causal mask in two blocks"),
    "a derivative is taken at 1": F("normal.Normal._deriv", "(), {s: at})", "(), {s: UNITY and Term(\"num\", Fraction(1))})", "true: d/ds of a root"),
    "a product has one slope": F("normal.Normal.along", "for a, e in m:", "for a, e in sorted(m, key=lambda f: f[0].key)[:1]:", "true: d/ds of a root"),
    "a power has the slope of its base": F("normal.Normal.along", "(a, e - 1)", "(a, 0)", "kernel: a_smooth_function_stays_free"),
    "a root forgets its half": F("normal.Normal._slope", "Fraction(1, 2)", "1", "true: d/ds of a root"),
    "a function is its own derivative": F("normal.Normal._slope", "self.times(atom(slope),", "self.times(atom(a),", "kernel: a_smooth_function_stays_free"),
    # rules
    "two things of one name": F("rules._one_thing_each_name", "== t, ", "or True, ", "kernel: names_mean_one_thing"),
    "any two sides are equal": F("rules.by_normal_form", "if not normal.same(", "if normal.same(", "true: shift"),
    "what divides is forgotten": F("rules.by_normal_form", "_needs((lhs, rhs), words)", "set()", "true: M ⊙ masked softmax"),
    "a chain with a gap": F("rules.chain", "first.rhs == second.lhs", "True", "rule: a_chain_has_no_gap_and_forgets_nothing"),
    "a chain forgets what is assumed": F("rules.chain", "first.hypotheses | second.hypotheses", "first.hypotheses", "rule: a_chain_has_no_gap_and_forgets_nothing"),
    "a chain forgets what divides": F("rules.chain", "first.conditions | second.conditions", "first.conditions", "rule: a_chain_has_no_gap_and_forgets_nothing"),
    "means are split of any two": F("rules.linearity", "f.args[1:] == g.args[1:]", "True", "rule: the_mean_of_a_sum_needs_the_means_and_one_set_of_draws"),
    "every mean exists": F("conditions.conditions", ', "mean": EXISTS', "", "rule: the_mean_of_a_sum_needs_the_means_and_one_set_of_draws"),
    "anything is put for a letter": F("rules.instance", "fits(put(x.args[1], (), sizes), t)", "pass", "rule: what_stands_for_a_permutation_is_one"),
    "an instance divides by nothing": F("rules.instance", "_carried(relation, x, meant)", "()", "rule: an_instance_carries_what_its_proof_divided_by"),
    "the sides of an instance divide by nothing": F("rules.instance", "needs | _needs(sides)", "needs", "rule: an_instance_says_what_its_sides_divide_by"),
    "conditions are forgotten": F("rules._conditions", "_condition(r, abstract(letters, x))", "()", "rule: normal_forms_bring_what_they_divide_by"),
    "a number of any numerator": F("terms._plain", "type(a) is Fraction", "False", "rule: a_number_is_made_of_pythons_own"),
    "an instance keeps its hypotheses": F("rules.instance", "(_side(go(a)), _side(go(b)))", "(a, b)", "rule: an_instance_is_checked_and_carries_what_is_assumed"),
    "a hole of any sort": F("rules.congruence", "need(hole.args[1:]", "need(True or hole.args[1:]", "rule: equals_for_equals_in_a_context"),
    "a context divides by nothing": F("rules.congruence", "theorem.conditions | _needs(map(_side, sides))", "theorem.conditions", "rule: equals_for_equals_in_a_context"),
    "what is assumed of one holds of all": F("rules.for_every", "not any(x in spoken for spoken in assumed)", "True", "rule: what_holds_of_a_letter_holds_of_all"),
    "an assumption is forgotten": F("rules.given", "(), {(lhs, rhs)})", "())", "rule: a_chain_has_no_gap_and_forgets_nothing"),
    "any assumption is discharged": F("rules.discharge", "need(pair in theorem.hypotheses", "need(True", "rule: what_is_assumed_and_proved_is_no_assumption"),
    "induction without a base": F("rules.induction", "(theorem.lhs, theorem.rhs) == wanted", "at != UNIT or (theorem.lhs, theorem.rhs) == wanted and True or at == UNIT", "rule: an_induction"),
    "induction by another step": F("rules.induction", "len(about) == 1", "about", "rule: an_induction"),
    "a condition may speak of the size": F("rules.induction", "not any(size in x.letters for x in others)", "True", "rule: no_condition_of_an_induction_speaks_of_its_size"),
}  # fmt: skip

#: What only holds, names or hands on; a fault there is one of what it calls.
PLAIN = set(
    """
    terms.Frozen.__delattr__ terms.Frozen.__setattr__ terms.Frozen._keep terms.ProofError.__str__
    terms.Term.__eq__ terms.Term.__hash__ terms.Term.__init__ terms.Term.__repr__ terms._below
    terms._key terms.abstract terms.fun terms.looked_into terms.need terms.opened terms.pos
    terms.rebuilt sorts._derivative sorts._over sorts.check sorts.check_function sorts.full
    sorts.is_number sorts.kind_of sorts.range_of conditions._of_derivative
    polynomials._factors polynomials._power_term polynomials.atom polynomials.constant
    polynomials.letters_of polynomials.numerator polynomials.product_term polynomials.rank
    polynomials.scaled polynomials.term_of sums.Sums._sum sums.Sums.summed sums._age sums._base
    sums._in_order sums._places sums._range sums._solutions sums._paths sums.halves sums.reindexed
    sums.split_positions normal.Normal.__init__ normal.Normal._add normal.Normal._inv
    normal.Normal._let normal.Normal._mul normal.Normal._pow normal.Normal._size
    normal.Normal.argument normal.Normal.canonical normal.Normal.poly normal.Normal.power
    normal.Normal.same normal.Normal.times normal.Normal.vanishing normal._with_fewer_signs
    rules._carried rules._condition rules._genuine rules._needs rules._public rules._side
    rules._theorem rules.reverse
    """.split()
)


def functions():
    """The functions and methods of the kernel, by the names that faults have."""
    found = {}
    for module, owner in MODULES.items():
        for name, item in vars(owner).items():
            if getattr(item, "__module__", None) != owner.__name__:
                continue
            item = getattr(item, "__wrapped__", item)  # what is remembered is a function, too
            if inspect.isfunction(item):
                found[f"{module}.{name}"] = item
            elif inspect.isclass(item):
                methods = {k: f for k, f in vars(item).items() if inspect.isfunction(f)}
                found |= {f"{module}.{name}.{k}": f for k, f in methods.items()}
    return found

"""The language of derivations: variables, matrices, named functions, and substitution.

Read ``letters``, ``index_forms``, ``operations`` and ``matrices`` first; then ``symbols``,
``substitution``, ``templates``, ``definitions`` and ``vocabulary``.  The other modules serve
printing and check names.  Nothing here is trusted.
"""

from .definitions import Word, define, recursion
from .index_forms import exp_of, log_of, root_of, total
from .layout import (WIDEST, aligned, brief_words, broken, equation_rows, kept_back_in, length,
                     rows_of, width)  # fmt: skip
from .letters import (ANGLE_ADDITION, COUNT, EXP_OF_SUM, LAWS, LINEARITY, ORDER, REINDEX,
                      SECOND_MOMENTS, SPLIT, Bijection, End, Family, Index, Law, kernel_letter,
                      letter, number, shape_text, show_number, size_of, size_term, written)  # fmt: skip
from .matrices import (Expression, causal, derivative, diag, entry_of, expectation, expression,
                       free_names, hadamard, identity, last_row, ones, operations_in,
                       position_numbers, product, same, stack, tabulate, zeros)  # fmt: skip
from .name_clashes import check_indices, check_names, kernels_letters
from .nonzero import NonZero
from .operations import (DERIVATIVE, EXPECTATION, HOLE, OVER, PRODUCT_OF, SCALED, SUM_OF,
                         TRANSPOSE, NotRun, Operation, complete, torch)  # fmt: skip
from .shown_sizes import telling_sizes
from .substitution import Substitution, over
from .symbols import (Heads, Sequence, head, heads, join, mask, matrix, permutation,
                      random_matrix, scalars, sequence, sizes)  # fmt: skip
from .vocabulary import (batch_norm, cos, entrywise, exp, layer_norm, log, masked_softmax,
                         normalise, relu, rms_norm, sigmoid, sin, softmax, softmax_one, tanh)  # fmt: skip

__all__ = ["ANGLE_ADDITION", "COUNT", "DERIVATIVE", "EXPECTATION", "EXP_OF_SUM", "HOLE", "LAWS",
           "LINEARITY", "ORDER", "OVER", "PRODUCT_OF", "REINDEX", "SCALED", "SECOND_MOMENTS",
           "SPLIT", "SUM_OF", "TRANSPOSE", "WIDEST", "Bijection", "End", "Expression", "Family",
           "Heads", "Index", "Law", "NonZero", "NotRun", "Operation", "Sequence", "Substitution",
           "Word", "aligned", "batch_norm", "brief_words", "broken", "causal", "check_indices",
           "check_names", "complete", "cos", "define", "derivative", "diag", "entry_of",
           "entrywise", "equation_rows", "exp", "exp_of", "expectation", "expression", "free_names",
           "hadamard", "head", "heads", "identity", "join", "kept_back_in", "kernel_letter",
           "kernels_letters", "last_row", "layer_norm", "length", "letter", "log", "log_of", "mask",
           "masked_softmax", "matrix", "normalise", "number", "ones", "operations_in", "over",
           "permutation", "position_numbers", "product", "random_matrix", "recursion", "relu",
           "rms_norm", "root_of", "rows_of", "same", "scalars", "sequence", "shape_text",
           "show_number", "sigmoid", "sin", "size_of", "size_term", "sizes", "softmax",
           "softmax_one", "stack", "tabulate", "tanh", "telling_sizes", "torch", "total", "width",
           "written", "zeros"]  # fmt: skip

complete()

"""How much of a shift of the keys is seen, in each number format and by each kernel.

The same vector is added to every key.  Exactly, nothing changes (theorem 3.2).  Its entries are
plus or minus the size of the shift, so that the scores of a query move by that size times a
standard normal number.  The control adds the same vector to every query, which is seen.
"""

from .bench import attend, by_format_and_kernel, number_format, relative_error


def steps(bench):
    return by_format_and_kernel(bench, shifting)


def shifting(bench, format, kernel):
    """{"key": errors, "query": errors}: for each size of the shift, one for each seed."""
    found = {"key": [], "query": []}
    with number_format(format) as dtype:
        for shift in bench.sizes.shifts:
            pairs = [errors(bench, dtype, kernel, shift, seed) for seed in range(bench.sizes.seeds)]
            found["key"].append([key for key, _ in pairs])
            found["query"].append([query for _, query in pairs])
    return found


def errors(bench, dtype, kernel, shift, seed):
    """The relative change of the output when the keys are shifted, and when the queries are."""
    s = bench.sizes
    q, k, v = bench.normal(3, 1, s.heads, s.length, s.width, seed=seed, dtype=dtype)
    vector = shift * bench.signs(1, s.heads, 1, s.width, seed=seed, dtype=dtype)
    unshifted = attend(q, k, v, kernel)
    return (
        relative_error(attend(q, k + vector, v, kernel), unshifted),
        relative_error(attend(q + vector, k, v, kernel), unshifted),
    )

"""What a record of a device is: its file, its fields, and what follows from its numbers.

A record is one JSON file.  Every time and every error stands in it as often as it was measured;
medians and rates are worked out from it, here.  Seconds, bytes and plain ratios throughout.
"""

import json
import math
from pathlib import Path
from statistics import median

import files

#: Changes whenever a field changes its meaning: then the records taken before are refused.
SCHEMA = 1
#: What a record may hold, in the order in which it is taken.
EXPERIMENTS = ("rates", "precision", "gradients", "batch_norm", "scale", "chapters")
BYTES = {"float64": 8, "float32": 4, "tf32": 4, "bfloat16": 2, "float16": 2}
KERNELS = ("math", "efficient", "flash", "cudnn")
OUT_OF_MEMORY, NOT_OFFERED, FAILED = "out of memory", "not offered", "failed"


class RecordError(ValueError):
    """Why a file is no record, in one sentence."""


def read_record(path):
    """The record in a file.  Raises RecordError for anything else, a rehearsal too."""
    path = Path(path)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise RecordError(f"{path.name} is not JSON: {wrong}.") from None
    try:
        check(record)
    except RecordError as wrong:
        raise RecordError(f"{path.name} is no record of a device: {wrong}") from None
    if record["rehearsal"] or record["device"]["type"] != "cuda":
        raise RecordError(
            f"{path.name} is a rehearsal, and no record: "
            "take one on a CUDA device with `make gpu-record`, or delete the file."
        )
    return record


def write(record, path):
    """Write the file whole or not at all."""
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    files.write(path, text)


# ---- the fields ---------------------------------------------------------------------
# A shape is a function of a value and of its place in the file; it raises RecordError.


def check(record):
    """Raise RecordError, with the place, unless this has every field of a record."""
    fields(schema=whole)(record, "the file")
    if record["schema"] != SCHEMA:
        raise RecordError(f"its schema is {record['schema']}, and this book reads {SCHEMA}.")
    RECORD(record, "the file")
    unknown = set(record["results"]) - set(EXPERIMENTS)
    if unknown:
        raise RecordError(f"“{min(unknown)}” is no experiment.")
    for experiment, steps in record["results"].items():
        each(ROWS[experiment])(steps, f"results.{experiment}")
    for name, row in record["results"].get("precision", {}).items():
        for side in {"key", "query"} & set(row):
            of_each_shift = len(row[side]) == len(record["settings"]["shifts"])
            demand(of_each_shift, f"results.precision.{name}.{side}", "one list for each shift")


def demand(fulfilled, where, expected):
    if not fulfilled:
        raise RecordError(f"{where} should be {expected}.")


def whole(value, where):
    demand(isinstance(value, int) and not isinstance(value, bool), where, "a whole number")


def number(value, where):
    good = isinstance(value, int | float) and not isinstance(value, bool)
    demand(good and math.isfinite(value) and value >= 0, where, "a number that is not negative")


def positive(value, where):
    number(value, where)
    demand(value > 0, where, "a number above zero")


def text(value, where):
    demand(isinstance(value, str), where, "a text")


def truth(value, where):
    demand(isinstance(value, bool), where, "true or false")


def one_of(*choices):
    return lambda value, where: demand(value in choices, where, f"one of {', '.join(choices)}")


def maybe(shape):
    """null, where something could not be known or an error was not finite."""
    return lambda value, where: None if value is None else shape(value, where)


def many(shape):
    def check_many(value, where):
        demand(isinstance(value, list) and value, where, "a list that is not empty")
        for place, entry in enumerate(value):
            shape(entry, f"{where}[{place}]")

    return check_many


def each(shape):
    def check_each(value, where):
        demand(isinstance(value, dict), where, "an object")
        for name, entry in value.items():
            shape(entry, f"{where}.{name}")

    return check_each


def fields(**shapes):
    def check_fields(value, where):
        demand(isinstance(value, dict), where, "an object")
        for name, shape in shapes.items():
            if name not in value:
                raise RecordError(f"{where} lacks “{name}”.")
            shape(value[name], f"{where}.{name}")

    return check_fields


def measured(names, **numbers):
    """What was measured under these names, or why it stopped."""
    stopped = fields(**names, stopped=one_of(OUT_OF_MEMORY, NOT_OFFERED, FAILED), message=text)
    done = fields(**names, **numbers)

    def check_row(value, where):
        (stopped if isinstance(value, dict) and "stopped" in value else done)(value, where)

    return check_row


def up_to_the_first_stop(shape):
    """Runs of which at least one was measured, and none follows after one that stopped."""

    def check_runs(value, where):
        many(shape)(value, where)
        last = len(value) - 1
        for place, run in enumerate(value):
            if "stopped" in run:
                demand(0 < place == last, where, "runs that end with the first that stops")

    return check_runs


RECORD = fields(
    rehearsal=truth,
    date=text,
    device=fields(
        type=one_of("cuda", "cpu"), name=text, capability=maybe(text), memory_bytes=maybe(whole)
    ),
    versions=fields(
        driver=maybe(text), cuda=maybe(text), cudnn=maybe(text), torch=text, python=text, system=text
    ),
    source=fields(commit=maybe(text), changed=maybe(truth)),
    settings=fields(
        heads=whole, width=whole, length=whole, seeds=whole, shifts=many(positive),
        lengths=many(whole), repeats=whole, copied_bytes=whole, matrix=whole,
    ),
    results=each(each(lambda value, where: None)),
)  # fmt: skip
FORMAT = {"format": one_of(*BYTES)}
KERNEL = FORMAT | {"kernel": one_of(*KERNELS)}
ERRORS = many(maybe(number))
ROWS = {
    "rates": measured({"of": one_of("copy", *BYTES)}, seconds=many(positive)),
    "precision": measured(KERNEL, key=many(ERRORS), query=many(ERRORS)),
    "gradients": measured(KERNEL, key_over_query=ERRORS),
    "batch_norm": measured(FORMAT, before_over_after=ERRORS),
    "scale": measured(
        KERNEL,
        runs=up_to_the_first_stop(
            measured(
                {"length": whole},
                seconds=many(positive), error=maybe(number), peak_bytes=maybe(whole),
            )
        ),
    ),
    "chapters": fields(passed=truth, lines=maybe(many(text)), seconds=number, complaint=maybe(text)),
}  # fmt: skip


# ---- what follows from the numbers ----------------------------------------------------


def copied_per_second(record):
    """Bytes read plus bytes written in a second by a plain copy; None where it was not measured."""
    seconds = record["results"].get("rates", {}).get("copy", {}).get("seconds")
    return 2 * record["settings"]["copied_bytes"] / median(seconds) if seconds else None


def matrix_rate(record, format):
    """Operations in a second of a product of square matrices; None where there is none."""
    seconds = record["results"].get("rates", {}).get(format, {}).get("seconds")
    return 2 * record["settings"]["matrix"] ** 3 / median(seconds) if seconds else None


def operations(settings, length):
    """Additions and multiplications of the two products of attention, one batch, no mask."""
    return 4 * length**2 * settings["heads"] * settings["width"]


def least_bytes(settings, length, format):
    """What any kernel has to move: queries, keys and values read once, the output written."""
    return 4 * length * settings["heads"] * settings["width"] * BYTES[format]


def attention_rate(record, run):
    """Operations in a second of one run of attention."""
    return operations(record["settings"], run["length"]) / median(run["seconds"])


def share_of_matrix_rate(record, format, run):
    """How much of the device's own matrix rate in this format a run of attention reaches."""
    rate = matrix_rate(record, format)
    return attention_rate(record, run) / rate if rate else None


def share_of_bandwidth(record, format, run):
    """The least traffic of a run, as a part of what a plain copy moves in that time."""
    bandwidth = copied_per_second(record)
    moved = least_bytes(record["settings"], run["length"], format) / median(run["seconds"])
    return moved / bandwidth if bandwidth else None

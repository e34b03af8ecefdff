PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
INDEX := _build/html/index.html
PAGE := _build/singlehtml/index.html
PDF := _build/pdf/where-did-the-bias-go.pdf
PIP := $(BIN)/python -m pip --disable-pip-version-check
ONE_AT_A_TIME := tools/alone.py installation

# One thread per process: the tests run side by side, and the cells are small.
# An own IPython folder: nobody's start-up files can change a notebook's output.
# Versions that nobody has tried are not named where outputs are compared.
RUN_ENV := OMP_NUM_THREADS=1 UNTRIED_VERSIONS=quiet IPYTHONDIR=$(CURDIR)/$(VENV)/ipython
INLINE := MPLBACKEND=module://matplotlib_inline.backend_inline
PYTEST := $(BIN)/python -m pytest -p tests.last_lines -n $(WORKERS) --dist loadscope --durations=10
# Kernels forked from one process that has imported torch; FORK=0 starts each on its own.
export FORK
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout=120 -p tests.forkserver \
  -p tests.notebook_reports
# Each run of pytest leaves its outcome in a folder; after the last they are told together.
OUTCOMES := outcomes=$$(mktemp -d) && trap 'rm -rf "$$outcomes"' EXIT
LAST_LINES := $(BIN)/python tests/last_lines.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help ready book pdf course release test rocq test-rocq test-site test-course test-processors \
  test-device test-versions test-surroundings bench fuzz judge mutants notebooks reproducible colab proof-times addresses \
  lint lock clean

help:
	@echo "make book       build the book, strictly, into _build/html"
	@echo "make pdf        print the book into _build/pdf, with Chromium; the site then offers it"
	@echo "make course     pack student.zip and instructor.zip for a class, into _build/course"
	@echo "make release    archive a version: pages, PDF, notebooks, course, checksums"
	@echo "make test       re-run every notebook against its stored output, then the tests"
	@echo "make test-site  open the built pages, run the copies for Colab  (wants Chromium)"
	@echo "make test-processors  do notebooks and tests say the same on other processors?  (hours)"
	@echo "make test-device  every notebook on a pretended accelerator: are devices ever mixed?"
	@echo "make test-course  grade right, wrong and hostile submissions, look at every slide"
	@echo "make test-versions  run every proof on other versions of Python and SymPy"
	@echo "make test-surroundings  interrupt builds, fill disks, cut the network: what is said then?"
	@echo "make fuzz       offer 50,000 random lines to the checker  (FUZZ=\"--lines 2000 --seed 3\")"
	@echo "make judge      evaluate every theorem at all combinations of sizes 1 to 3, in many worlds"
	@echo "make mutants    make mistakes in notebooks and checker: is each noticed?"
	@echo "make rocq       prove the core theorems once more, in Rocq  (wants coq and MathComp)"
	@echo "make test-rocq  show that an axiom or a missing proof would be found there"
	@echo "make bench      time the notebooks: forked and plain kernels, nbmake, one script"
	@echo "make notebooks  execute the notebooks in place  (ONLY=\"notebooks/03*.ipynb\")"
	@echo "make reproducible  execute them elsewhere, in two surroundings: the same files?"
	@echo "make colab      write the copies of the notebooks that run alone, into _build/colab"
	@echo "make proof-times  time every proof, for the figure of chapter 0  (wants a quiet machine)"
	@echo "make addresses  write repository.url of _config.yml where else it has to stand"
	@echo "make lint       check and format the code of the checker, the tests and the tools"
	@echo "make lock       pin anew what requirements.txt pulls in, into constraints.txt"
	@echo "make clean      remove the built book, the environment and the caches"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter that .venv is made with."
	@echo "WORKERS=4 runs the tests in so many processes."
	@echo "FORK=0 gives every notebook a kernel that imports everything itself."

# A folder that cannot be written, a file that is no notebook: one sentence, before the work.
ready: $(STAMP)
	@$(BIN)/python tools/ready.py

book: ready
	@$(BIN)/python tools/build_book.py
	@echo "The book: $(CURDIR)/$(INDEX)"

$(INDEX):
	@$(MAKE) --no-print-directory book

# The book is built once more, quickly: it offers the PDF that is there now.
pdf: ready
	@$(BIN)/python tools/build_book.py singlehtml
	@$(BIN)/python tools/print_pdf.py $(PAGE) $(PDF)
	@$(MAKE) --no-print-directory book
	@echo "The PDF: $(CURDIR)/$(PDF)"

# What a teacher hands out; the book goes with it, to be read offline.
course: book
	@$(BIN)/python tools/course.py

# All that a version consists of, with checksums.
release: pdf
	@$(MAKE) --no-print-directory course
	@$(BIN)/python tools/release.py

# Two runs; what failed in the first is said again after the second.
test: ready
	@trap "exit 130" INT; failed=0; $(OUTCOMES); \
	OUTCOME=$$outcomes/notebooks.json $(RUN_ENV) $(INLINE) $(PYTEST) $(NBVAL) notebooks || failed=1; \
	OUTCOME=$$outcomes/tests.json $(RUN_ENV) MPLBACKEND=agg $(PYTEST) \
	  $(addprefix --ignore=tests/,site course versions rocq surroundings) tests || failed=1; \
	$(LAST_LINES) $$outcomes/notebooks.json $$outcomes/tests.json || failed=1; \
	exit $$failed

# Every notebook, and every test with torch in it, as other processors would compute it: imagined
# ones, and what torch offers here. ONLY="notebooks/13b*.ipynb" TESTS= for some of them,
# VARIANTS= for the imagined processors alone.
SEEDS ?= 1 2 3
VARIANTS ?= avx2 no-avx two-threads
TESTS = $(shell grep -l "^import torch" tests/test_*.py)
test-processors: ready
	@$(RUN_ENV) $(INLINE) $(BIN)/python -m tests.processors --workers $(WORKERS) \
	  --seeds $(SEEDS) --variants $(VARIANTS) -- $(ONLY) $(TESTS)

# Every notebook on an accelerator that is made of Python; ONLY="notebooks/03*.ipynb" for some.
# Then chapter 12's library: what it says of models that lie there.
ON_DEVICE := tests/pretended_device/models_on_the_device.py
test-device: ready
	@trap "exit 130" INT; failed=0; $(OUTCOMES); \
	OUTCOME=$$outcomes/notebooks.json $(RUN_ENV) $(INLINE) $(PYTEST) $(NBVAL) \
	  --nbval-cell-timeout=1800 -p tests.pretended_device.plugin $(ONLY) || failed=1; \
	OUTCOME=$$outcomes/models.json $(RUN_ENV) $(PYTEST) $(ON_DEVICE) || failed=1; \
	$(LAST_LINES) $$outcomes/notebooks.json $$outcomes/models.json || failed=1; \
	exit $$failed

# What readers get: pages in Chromium, live proofs, the PDF where it is made, Colab copies.
# What is timed comes last, with nothing beside it.
test-site: book
	@trap "exit 130" INT; failed=0; $(OUTCOMES); \
	OUTCOME=$$outcomes/site.json $(RUN_ENV) MPLBACKEND=agg $(PYTEST) --dist worksteal -rs \
	  -m "not timed" tests/site || failed=1; \
	OUTCOME=$$outcomes/timed.json $(RUN_ENV) MPLBACKEND=agg $(PYTEST) -rs -m timed -n 0 tests/site \
	  || failed=1; \
	$(LAST_LINES) $$outcomes/site.json $$outcomes/timed.json || failed=1; \
	exit $$failed

# Submissions are graded in processes of their own; nbgrader is installed for this alone.
test-course: $(INDEX)
	@$(RUN_ENV) MPLBACKEND=agg $(PYTEST) --dist worksteal -rs tests/course

# The symbolic part on the interpreters that are here, and on the SymPy before the pinned one.
test-versions: $(STAMP)
	@$(RUN_ENV) $(PYTEST) -rs tests/versions

# Builds and tests of a small copy, stopped halfway, in twos, without a disk or a network.
test-surroundings: $(STAMP)
	@$(RUN_ENV) $(PYTEST) --dist worksteal -rs tests/surroundings

# Random lines, true and false; each that is accepted is evaluated. Printed: how to go on.
FUZZ ?= --lines 50000 --seed 1
fuzz: $(STAMP)
	@$(RUN_ENV) $(BIN)/python tests/fuzz/run.py $(FUZZ)

# Every theorem at all combinations of small sizes, in many worlds each.
judge: $(STAMP)
	@$(RUN_ENV) JUDGE_WORLDS=700 $(PYTEST) tests/kernel/test_the_book.py

# Deliberate mistakes in notebooks and checker: is each of them noticed? The record becomes a page.
MUTANTS ?=
mutants: $(STAMP)
	@$(RUN_ENV) $(INLINE) $(BIN)/python tests/mutants/run.py $(MUTANTS)

# An independent foundation: another logic, another checker, nothing of Python's.
rocq: | $(BIN)/python
	@$(BIN)/python tools/rocq.py

test-rocq: $(STAMP)
	@$(RUN_ENV) $(PYTEST) -rs tests/rocq

# With nothing beside it; BENCH="--repeat 3" or BENCH="notebooks/0*.ipynb" for more or less of it.
BENCH ?=
bench: $(STAMP)
	@$(BIN)/python tools/bench.py $(BENCH)

ONLY ?= notebooks/*.ipynb
notebooks: $(STAMP)
	@$(RUN_ENV) $(INLINE) $(BIN)/python tools/execute_notebooks.py $(ONLY)

reproducible: ready
	@IPYTHONDIR=$(CURDIR)/$(VENV)/ipython $(INLINE) $(BIN)/python tools/reproducible.py $(ONLY)

colab: $(STAMP)
	@$(BIN)/python tools/colab.py

OPTIONS ?=
# Minutes of one thread; a chapter draws the record and measures nothing itself.
proof-times: $(STAMP)
	@$(RUN_ENV) $(BIN)/python tools/proof_times.py $(OPTIONS)

addresses: $(STAMP)
	@$(BIN)/python tools/addresses.py

CODE := notebooks/derivation notebooks/redundancy notebooks/*.py book/extensions book/static/live \
  book/teaching tests tools
lint: $(STAMP)
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

lock: | $(BIN)/python
	$(PIP) install --upgrade --upgrade-strategy eager -r requirements.txt
	$(BIN)/python tools/lock.py
	@touch $(STAMP)

clean:
	rm -rf _build $(VENV) .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v "$(PYTHON)" > /dev/null || { \
	  echo "There is no $(PYTHON) here: install Python 3.11 or newer, or name one," \
	    "as in: make PYTHON=/path/to/python3"; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is older than Python 3.11: install a newer one and name it," \
	    "as in: make PYTHON=python3.12"; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2> /dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments:" \
	    "install its venv module, as in: apt install python3-venv"; exit 1; }
	@[ -w . ] || { echo "$(CURDIR) cannot be written, and \`make\` keeps its work there:" \
	  "copy the checkout to where you can write, or make it writable."; exit 1; }
	@"$(PYTHON)" $(ONE_AT_A_TIME) sh -c '[ -x $@ ] || "$(PYTHON)" -m venv --clear $(VENV)'

# The first import of Matplotlib may announce that it builds its font cache. It does so
# here, and not in the output of a notebook.
$(STAMP): requirements.txt constraints.txt | $(BIN)/python
	@$(BIN)/python $(ONE_AT_A_TIME) $(PIP) install -r requirements.txt -c constraints.txt || { \
	  echo "pip could not install what requirements.txt names; the reason stands above." \
	    "The first \`make\` needs a network and some gigabytes of disk; run it again to go on."; \
	  exit 1; }
	@$(BIN)/python -c 'import matplotlib.font_manager'
	@touch $@

PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PDF := _build/pdf/where-did-the-bias-go.pdf
PIP := $(BIN)/python -m pip --disable-pip-version-check

# One thread per process, because the tests run in parallel and the cells are small.
# A separate IPython folder, so that nobody's start-up files change a notebook's output.
# No warning about untried versions while outputs are compared.
export OMP_NUM_THREADS := 1
export UNTRIED_VERSIONS := quiet
export IPYTHONDIR := $(CURDIR)/$(VENV)/ipython
INLINE := MPLBACKEND=module://matplotlib_inline.backend_inline
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --durations=10
NBVAL := --dist loadscope --nbval --nbval-current-env --nbval-cell-timeout=120 \
  -p tests.notebook_kernels
STAGES := tests site fuzz mutants versions processors device rocq

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help ready book pdf course release test test-site nightly notebooks lint lock clean \
  $(addprefix nightly-,$(STAGES))

help:
	@echo "make book       build the book, strictly, into _build/html"
	@echo "make test       re-run every notebook against its stored output, then the tests"
	@echo "make notebooks  execute the notebooks in place  (ONLY=\"notebooks/03*.ipynb\")"
	@echo "make lint       check and format the code, and check its types"
	@echo "make pdf        print the book into _build/pdf, with Chromium; the site then offers it"
	@echo "make course     pack student.zip and instructor.zip for a class, into _build/course"
	@echo "                (SEED=\"autumn 27\" draws exercises that no other class has)"
	@echo "make release    archive a version: pages, PDF, notebooks, course, checksums"
	@echo "make test-site  a page of each kind in Chromium, copies for Colab, an assignment"
	@echo "make nightly    what takes hours: everything else that is tested  (ONLY=\"fuzz site\")"
	@echo "make clean      remove what was built, the environment and the caches"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter that .venv is made with."
	@echo "WORKERS=4 runs the tests in so many processes."

ready: $(STAMP)

# Build from scratch: a page that Sphinx has cached repeats no warnings, and Sphinx never copies a
# changed style sheet again.
book: ready
	@rm -rf _build/html _build/jupyter_execute _build/.doctrees
	@$(BIN)/python -m tools live-assets
	@$(BIN)/jupyter-book build . -W -n --keep-going
	@echo "The book: $(CURDIR)/_build/html/index.html"

_build/html/index.html:
	@$(MAKE) --no-print-directory book

# Build the book once more, so that it offers the new PDF.
pdf: book
	@$(BIN)/python -m tools print-pdf
	@$(MAKE) --no-print-directory book
	@echo "The PDF: $(CURDIR)/$(PDF)"

# Pack what a teacher hands out, including the book for offline reading.
course:
	@rm -rf _build/course # or the book inside the archives would offer the archives
	@$(MAKE) --no-print-directory book
	@$(BIN)/python -m tools course

# Make everything that belongs to a version, and a site that offers it; archive it, with checksums.
release: pdf
	@$(MAKE) --no-print-directory course
	@$(MAKE) --no-print-directory book
	@$(BIN)/python -m tools release

# Run in two passes; repeat the first pass's failures at the end.
test: ready
	@$(INLINE) $(PYTEST) $(NBVAL) notebooks; first=$$?; \
	MPLBACKEND=agg $(PYTEST) --dist loadscope -m "not nightly" \
	  $(addprefix --ignore=tests/,site course) tests; second=$$?; \
	[ $$first = 0 ] || echo "Cells of notebooks failed: they are named above, after the first run."; \
	[ $$first = 0 ] && [ $$second = 0 ]

# Test one sample of everything that readers, teachers and Colab users get; make nightly tests all.
# Timed tests come last, with nothing else running.
test-site: _build/html/index.html
	@MPLBACKEND=agg $(PYTEST) --dist worksteal -rs -m "not nightly and not timed" tests/site tests/course
	@MPLBACKEND=agg $(PYTEST) -n 0 -rs -m "timed and not nightly" tests/site

# A failing stage does not stop the others.
nightly: book
	@$(MAKE) --no-print-directory --keep-going $(addprefix nightly-,$(or $(ONLY),$(STAGES)))

# The tests that take too long for every change.
nightly-tests:
	$(PYTEST) -rs --dist loadscope -m nightly tests \
	  $(addprefix --ignore=tests/,site course versions rocq)

# Every page, every copy for Colab, every assignment by both routes.
nightly-site:
	$(PYTEST) -rs --dist worksteal -m "not timed" tests/site tests/course
	$(PYTEST) -n 0 -rs -m timed tests/site

# Random lines, true and false; evaluate each line that the checker accepts.
nightly-fuzz:
	FUZZ_LINES=50000 FUZZ_SEED=1 $(PYTEST) tests/test_fuzz.py

# Deliberate mistakes in the notebooks and in the checker.
nightly-mutants:
	$(BIN)/python tests/mutants/run.py

# The proofs on other Pythons, and on the SymPy before the pinned one.
nightly-versions:
	$(PYTEST) -rs --dist loadscope tests/versions  # one process makes each environment

# Notebooks and tests of what computes in torch, on three imagined processors; and on what torch
# offers here: its own kernels, MKL's, oneDNN's and those of NumPy's OpenBLAS each choose
# instructions for themselves.
IMAGINED := PYTHONPATH='$(CURDIR)/tests/processors' IMAGINED_PROCESSOR
WITH_TORCH := $(addprefix tests/,redundancy derivation/test_refuting_torch_runs.py \
  derivation/test_language_vocabulary.py \
  test_checks.py test_context_parallel.py test_norm_placement.py test_which_bias_can_go.py \
  records/test_gpu_record.py)
ON_ANOTHER := $(INLINE) $(PYTEST) -rs $(NBVAL) --nbval-cell-timeout=1200 notebooks $(WITH_TORCH)
nightly-processors:
	$(IMAGINED)=1 $(ON_ANOTHER)
	$(IMAGINED)=2 $(ON_ANOTHER)
	$(IMAGINED)=3 $(ON_ANOTHER)
	ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2 \
	  OPENBLAS_CORETYPE=Haswell $(ON_ANOTHER)
	ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 \
	  OPENBLAS_CORETYPE=Nehalem $(ON_ANOTHER)
	OMP_NUM_THREADS=2 $(ON_ANOTHER)

# Every notebook on a pretended accelerator, then the device itself.
nightly-device:
	PYTHONSTARTUP='$(CURDIR)/tests/pretended_device/start_up.py' $(INLINE) \
	  $(PYTEST) -rs $(NBVAL) --nbval-cell-timeout=1800 notebooks
	$(PYTEST) tests/pretended_device/on_the_device.py

# The core theorems once more, by another checker.
nightly-rocq:
	$(BIN)/python -m tools rocq
	$(PYTEST) -rs tests/rocq

notebooks: $(STAMP)
	@$(INLINE) $(BIN)/python -m tools execute-notebooks $(or $(ONLY),notebooks/*.ipynb)

# FIX=no only checks, as continuous integration does.
FIX := yes
lint: $(STAMP)
	@$(BIN)/ruff check $(if $(filter yes,$(FIX)),--fix) .
	@$(BIN)/ruff format $(if $(filter yes,$(FIX)),,--check) .
	@$(BIN)/mypy

# constraints.txt: what requirements.txt has pulled in, torch's CUDA packages aside, and that each
# version is there for the oldest Python.
lock: | $(BIN)/python
	$(PIP) install --upgrade --upgrade-strategy eager -r requirements.txt
	@{ head -n 2 constraints.txt; $(PIP) freeze --all -r requirements.txt \
	  | sed -e '1,/^## The following/d' -e 's/+.*//' \
	  | grep -Ev '^(pip|wheel|triton|nvidia-|cuda-)'; } > constraints.txt.new
	@$(PIP) install --quiet --dry-run --no-deps --only-binary=:all: --python-version 3.11.0 \
	  --target _build/none -r requirements.txt -r constraints.txt.new
	@mv constraints.txt.new constraints.txt
	@touch $(STAMP)

clean:
	rm -rf _build $(VENV) .pytest_cache
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
	@"$(PYTHON)" -m venv --clear $(VENV)

# The first import of Matplotlib may announce that it builds its font cache. It does so
# here, and not in the output of a notebook.
$(STAMP): requirements.txt constraints.txt | $(BIN)/python
	@$(PIP) install -r requirements.txt -c constraints.txt || { \
	  echo "pip could not install what requirements.txt names; the reason stands above." \
	    "The first \`make\` needs a network and some gigabytes of disk; run it again to go on."; \
	  exit 1; }
	@$(BIN)/python -c 'import matplotlib.font_manager'
	@touch $@

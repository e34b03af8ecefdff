"""What makes the pages: extensions of Sphinx, and the programs that print them.

`_config.yml` names this folder alone as an extension; `setup` sets up those that are listed below, in
this order.  `make book` needs nothing else; `print_pdf` and `live_assets` are commands.
"""

from importlib import import_module

EXTENSIONS = (
    "formulas",
    "register",
    "theorem_boxes",
    "claims",
    "publishing",
    "downloads",
    "reading_path",
    "live_proofs",
    "mutants_page",
    "lighter",
)


def setup(app):
    for name in EXTENSIONS:
        import_module(f"tools.site.{name}").setup(app)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": False}

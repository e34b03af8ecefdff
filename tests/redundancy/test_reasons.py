"""What `predict` knows is one table, and a report in a notebook links to it."""

import ast
from pathlib import Path

import pytest
import redundancy
import torch
from redundancy import audit, reasons
from redundancy.zoo import tiny


def sentences(module):
    """The beginning of each sentence that a module gives as a reason: in a list, or as Lost."""
    source = Path(redundancy.__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        lost = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Lost"
        for said in node.args if lost else node.elts if isinstance(node, ast.List) else ():
            first = said.values[0] if isinstance(said, ast.JoinedStr) else said
            if isinstance(getattr(first, "value", None), str):
                yield first.value


@pytest.mark.parametrize("module", ["scores", "values"])
def test_each_reason_of_predict_stands_in_the_table(module):
    aside = ("R: rows", "a linear map stands between")  # beside another that decides
    found = {said for said in sentences(module) if not said.startswith(aside)}
    begins = [r.begins for r in reasons.TABLE]
    unknown = {s for s in found if not any(b.startswith(s) or s.startswith(b) for b in begins)}
    assert len(found) > 5 and unknown == set()


def test_a_report_in_a_notebook_links_each_reason_to_its_theorem():
    torch.manual_seed(0)
    shown = audit(tiny("gpt2", n_layer=1))._repr_markdown_()
    link = "03b-every-head-and-a-zero-gradient.ipynb#the-key-bias-cancels-in-every-head"
    assert f"| b_K | can go: softmax ignores it ([3.3]({link})) | 32 | 32 | 32 |" in shown

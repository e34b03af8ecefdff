"""`audit` judges small models of timm, a library for which the project has no special code.

timm is installed into a temporary folder.  torchvision, whose wheels require CUDA, is replaced by
mocks, because timm needs torchvision only for data.
"""

import importlib
import subprocess
import sys
from importlib.machinery import ModuleSpec
from unittest.mock import MagicMock

import pytest
import torch
from redundancy import audit

pytestmark = pytest.mark.nightly

SMALL = {"img_size": 32, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 5}
WINDOWS = {"img_size": 32, "embed_dim": 8, "depths": (2, 2), "num_heads": (2, 2), "window_size": 4}
MOCKED = """torchvision torchvision.datasets torchvision.models.feature_extraction torchvision.ops.misc
torchvision.transforms torchvision.transforms.functional torchvision.utils""".split()


@pytest.fixture(scope="module")
def timm(tmp_path_factory):
    place = str(tmp_path_factory.mktemp("timm"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place]
    subprocess.run([*pip, "timm"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        for name in MOCKED:
            patch.setitem(sys.modules, name, MagicMock(__spec__=ModuleSpec(name, None)))
        yield importlib.import_module("timm")


#: {model: (its small sizes, whether it has a key bias, which can then go alone)}
MODELS = {
    "vit_tiny_patch16_224": (SMALL, True),
    "swin_tiny_patch4_window7_224": (WINDOWS, True),
    "eva02_tiny_patch14_224": (SMALL | {"img_size": 28}, False),
    "resnet10t": ({"num_classes": 5}, False),
    "mobilenetv3_small_050": ({"num_classes": 5}, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_an_audit_of_a_timm_model_agrees_with_the_theorems(timm, name):
    """All b_K can go alone; b_V and, in evaluation, running means can go into other biases."""
    given, key = MODELS[name]
    model, size = timm.create_model(name, pretrained=False, **given).eval(), given.get("img_size")
    report = audit(model, torch.randn(2, 3, size or 32, size or 32))
    assert {row.verdict for row in report.rows} <= {"agree", "not reached"}
    keys = [row for row in report.rows if row.bias == "b_K"]
    assert bool(keys) == key and all(row.alone == row.size for row in keys)
    part = "value" if size else "running_mean"
    moved = [row for row in report.rows if part in (row.part, row.name.split(".")[-1])]
    assert moved and all(row.together == row.size for row in moved)

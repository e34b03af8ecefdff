"""`audit` judges small models of timm, a library for which the project has no special code.

timm is installed into a temporary folder.  torchvision, whose wheels require CUDA, is replaced by
mocks, because timm needs torchvision only for data.
"""

import importlib
import importlib.abc
import importlib.machinery
import subprocess
import sys
from unittest.mock import MagicMock

import pytest
import torch
from redundancy import audit

pytestmark = pytest.mark.nightly

SMALL = {"img_size": 32, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 5}
WINDOWS = {"img_size": 32, "embed_dim": 8, "depths": (2, 2), "num_heads": (2, 2), "window_size": 4}


class NoTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        mine = name.partition(".")[0] == "torchvision"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if mine else None

    def create_module(self, spec):
        made = MagicMock(name=spec.name)
        made.__path__, made.__spec__ = [], spec
        return made

    def exec_module(self, module):
        pass


@pytest.fixture(scope="module")
def timm(tmp_path_factory):
    place = str(tmp_path_factory.mktemp("timm"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", place]
    subprocess.run([*pip, "timm"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        patch.setattr(sys, "meta_path", [NoTorchvision(), *sys.meta_path])
        yield importlib.import_module("timm")


def asked(timm, name, size=32, training=False, **given):
    model = timm.create_model(name, pretrained=False, **given).eval()
    report = audit(model, torch.randn(2, 3, size, size), training=training)
    assert not report.disagreements and "unknown" not in {row.verdict for row in report.rows}
    return report


#: {model: (its small sizes, whether it has a key bias)}
ATTENTION = {
    "vit_tiny_patch16_224": (SMALL, True),
    "swin_tiny_patch4_window7_224": (WINDOWS, True),
    "eva02_tiny_patch14_224": (SMALL | {"img_size": 28}, False),
    "swinv2_tiny_window8_256": (WINDOWS, False),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(timm, name):
    """Without a norm or rotation of keys, b_K can go alone; b_V can go into other biases."""
    given, key = ATTENTION[name]
    report = asked(timm, name, size=given["img_size"], **given)
    keys = [row for row in report.rows if row.bias == "b_K"]
    values = [row for row in report.rows if row.bias == "b_V"]
    assert bool(keys) == key and all(row.alone == row.size for row in keys)
    assert values and all(row.together == row.size for row in values)


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050"])
def test_batch_norm(timm, name):
    """Every running mean can go into a shift in evaluation; no shift can go in training."""
    report = asked(timm, name, num_classes=5)
    means = [row for row in report.rows if "running_mean" in row.name]
    assert means and all(row.together == row.size for row in means)
    training = asked(timm, name, training=True, num_classes=5)
    shifts = [row for row in training.rows if row.name.startswith("bn1")]
    assert shifts and not any(row.alone for row in shifts)

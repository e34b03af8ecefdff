"""Measure the time and memory of audits, each in its own process, on an idle machine.

    .venv/bin/python -m tools audit-times                 # all cases
    .venv/bin/python -m tools audit-times resnet50        # one case

The goals for two idle cores are 10 s and 1 GB for a configuration of any size, 60 s and 2 GB for
GPT-2 small itself, and 60 s for a network like ResNet-50.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import torch
from torch import nn

from tools.files import ROOT


class Bottleneck(nn.Module):
    """A block of ResNet-50: three convolutions, each followed by a BatchNorm, and a residual."""

    def __init__(self, given, middle, stride):
        super().__init__()
        sizes = (given, middle, 1, 1), (middle, middle, 3, stride), (middle, 4 * middle, 1, 1)
        layers = [conv(*size) for size in sizes]
        self.branch = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
        same = stride == 1 and given == 4 * middle
        self.residual = nn.Identity() if same else conv(given, 4 * middle, 1, stride)

    def forward(self, x):
        return (self.branch(x) + self.residual(x)).relu()


def conv(given, made, kernel, stride):
    layer = nn.Conv2d(given, made, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(made))


def resnet50():
    layers, given = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for middle, many, stride in (64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2):
        for i in range(many):
            layers.append(Bottleneck(given, middle, 1 if i else stride))
            given = 4 * middle
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 1000))


def config(kind, **given):
    from transformers import AutoConfig

    return AutoConfig.for_model(kind, **given)


def gpt2():
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(config("gpt2", architectures=["GPT2LMHeadModel"]))


#: {name: a function that returns (model or configuration, inputs, options of `audit`)}
CASES = {
    "resnet50": lambda: (resnet50(), torch.randn(2, 3, 64, 64), {}),
    "resnet50 in training": lambda: (resnet50(), torch.randn(2, 3, 64, 64), {"training": True}),
    "gpt2, its configuration": lambda: (config("gpt2"), None, {}),
    "llama of 80 layers": lambda: (config("llama", hidden_size=8192, num_hidden_layers=80,
                                          num_attention_heads=64, num_key_value_heads=8), None, {}),
    "deepseek_v3": lambda: (config("deepseek_v3"), None, {}),
    "gpt2 itself": lambda: (gpt2(), None, {}),
}  # fmt: skip


def run(name):
    from redundancy import audit

    model, inputs, how = CASES[name]()
    start = time.monotonic()
    report = audit(model, inputs, **how)
    took = time.monotonic() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    said = f"{len(report.rows)} rows, {len(report.disagreements)} disagree"
    print(f"{name:24} {took:6.1f} s {memory:5.2f} GB  {said}", flush=True)


def main(*asked):
    for case in asked or CASES:
        if len(asked) == 1:
            run(case)
        else:
            own = [sys.executable, "-m", "tools", "audit-times", case]
            subprocess.run(own, cwd=ROOT, check=True)

"""Where and with what a record is taken."""

import hashlib
import platform
import subprocess
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]


def facts(device):
    """The fields of a record that say what it was taken with; null where that is not known."""
    return {"device": about(device), "versions": versions(device), "source": source()}


def about(device):
    if device.type != "cuda":
        name = platform.processor() or platform.machine()
        return {"type": device.type, "name": name, "capability": None, "memory_bytes": None}
    found = torch.cuda.get_device_properties(device)
    return {
        "type": device.type,
        "name": found.name,
        "capability": f"{found.major}.{found.minor}",
        "memory_bytes": found.total_memory,
    }


def versions(device):
    on_cuda = device.type == "cuda"
    cudnn = torch.backends.cudnn.version() if on_cuda else None
    return {
        "driver": driver() if on_cuda else None,
        "cuda": torch.version.cuda if on_cuda else None,
        "cudnn": str(cudnn) if cudnn else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
    }


def driver():
    lines = said_by("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return lines.splitlines()[0].strip() if lines else None


def source():
    """The commit, whether the files differ from it, and a digest of how what is run differs."""
    commit = said_by("git", "rev-parse", "HEAD")
    changes = said_by("git", "status", "--porcelain", "--", ".", ":(exclude)book/records")
    known = commit is not None and changes is not None
    differences = said_by("git", "diff", "HEAD", "--", "tools", "notebooks")
    digest = hashlib.sha256(differences.encode()).hexdigest()[:12] if differences else None
    return {"commit": commit, "changed": bool(changes) if known else None, "changes": digest}


def said_by(*command):
    """What a program says; None where it is absent or fails."""
    try:
        run = subprocess.run(
            command, cwd=ROOT, capture_output=True, timeout=60, check=True,
            text=True, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return run.stdout.strip()

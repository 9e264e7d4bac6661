"""Figures that tests measure: shown with `pytest -s` or on failure, and kept as JSON where STALECAST_FIGURES says."""

import json
import os
from pathlib import Path

import pytest

from harness.daemon import LONG


def alone_when_long(test):
    """Marks a test that in its full size keeps all processors busy, and measures."""
    return pytest.mark.busy(test) if LONG else test


def record(name, **figures):
    """Prints the figures and adds them to the file under the test's name."""
    rounded = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in figures.items()}
    print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in rounded.items()))
    path = os.environ.get("STALECAST_FIGURES")
    if not path:
        return
    file = Path(path)
    known = json.loads(file.read_text()) if file.exists() else {}
    known[name] = rounded
    file.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


def percentile(values, share):
    """The value below which `share` of the sorted values are."""
    return values[min(len(values) - 1, int(len(values) * share))]

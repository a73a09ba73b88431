"""A tiny assessment on disk, for rules that need a plan or a run.

>>> import tempfile
>>> plan_in(Path(tempfile.mkdtemp())).spec.title
'example'
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from roadworthy.assessment.section import plan_assessment
from roadworthy.execution.plan import Plan
from roadworthy.spec import Assessment

SUBJECT = (
    "def predict(image):\n    return [float(image.mean()) / 255, 1 - float(image.mean()) / 255]\n"
)
ASSESSMENT = """
name: example
subject: {task: classification, python: subject.py:predict}
data: {test: {npz: test.npz}}
circumstances:
  noise: {transform: gaussian_noise, levels: [1], probability: 0.1}
supervisors: [max_softmax]
risk: {unit: EUR per case, costs: {wrong: 10}}
claims:
  - {id: ACC, accuracy: {min: 0.5}}
execution: {chunk: 4}
"""


def write_example(folder: Path) -> Path:
    """Ten images, five dark and five light, and what assesses a judge of brightness on them."""
    light = np.linspace(20, 240, 10)
    images = np.broadcast_to(light[:, None, None], (10, 8, 8)).astype(np.uint8)
    np.savez(folder / "test.npz", images=images, labels=(light < 128).astype(np.int64))
    (folder / "subject.py").write_text(SUBJECT)
    file = folder / "assessment.yaml"
    file.write_text(ASSESSMENT)
    return file


def plan_in(folder: Path) -> Plan:
    """The plan of that assessment."""
    return plan_assessment(Assessment.read(write_example(folder)))

"""How the cost of `assess` grows with the number of cases, against the bare work: corrupting the images and passing them forward.

    python benchmarks/assess_growth.py

Both sides run in one process with one thread, on the bundled Fashion-MNIST images under five transforms at three levels, from an
empty cache, taking turns; the best of three rounds counts, in seconds of processor time, which other work on the machine disturbs
less than the clock on the wall. Wanted: the growth from 5,000 to 20,000 cases is at most 1.3 times that of
the bare work, and what does not grow (start, report) stays below 10 s.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "fashion"
SAMPLES = {5_000: 313, 20_000: 1_250}
ROUNDS = 3


def assessment(samples: int, folder: Path) -> Path:
    """The example's assessment on that many samples: 16 conditions each."""
    content = yaml.safe_load((EXAMPLE / "assessment.yaml").read_text())
    content["subject"]["torch"] = f"{EXAMPLE}/model.py:build"
    content["subject"]["weights"] = f"{EXAMPLE}/weights.safetensors"
    content["data"]["test"]["limit"] = samples
    content["execution"] = {"workers": 1}
    path = folder / "assessment.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def measure(side: str, samples: int) -> dict[str, float]:
    """One round in a fresh interpreter and an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = assessment(samples, Path(folder))
        command = [sys.executable, __file__, side, str(path)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"whole": seconds, **json.loads(done.stdout.splitlines()[-1])}


def bare(path: Path) -> dict[str, float]:
    """Corrupt and pass forward, nothing else; what is loaded first is not counted."""
    from roadworthy.assessment.section import plan_assessment
    from roadworthy.execution.memory import keep_freed_memory
    from roadworthy.spec import Assessment

    # The command line keeps freed memory between batches; without it here too, the ratio would flatter us.
    keep_freed_memory()
    plan = plan_assessment(Assessment.read(path))
    (model,) = plan.subject.modules.values()
    port = model.inputs[0]
    data = plan.data["test"]
    import numpy as np

    from roadworthy.subject.module import Context

    size = plan.spec.execution.chunk
    model.batch({port: data.inputs[:8]}, Context([""] * 8))
    started = time.process_time()
    for condition in plan.conditions:
        for start in range(0, len(data), size):
            images = data.inputs[start : start + size]
            if condition.transform is not None:
                ids = data.ids[start : start + size]
                images = np.stack(
                    [
                        condition.transform.at_step(x, 0, f"{i}~{condition.name}")
                        for x, i in zip(images, ids, strict=True)
                    ]
                )
            model.batch({port: images}, Context([""] * len(images)))
    return {"work": time.process_time() - started}


def whole(path: Path) -> dict[str, float]:
    """The whole assessment, as the command line runs it."""
    from roadworthy.assessment.assess import assess
    from roadworthy.execution.memory import keep_freed_memory

    keep_freed_memory()
    return dict(assess(path).record.timings)


def main() -> None:
    """Print the table."""
    if len(sys.argv) == 3:
        print(json.dumps((bare if sys.argv[1] == "bare" else whole)(Path(sys.argv[2]))))
        return
    rounds: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for cases, samples in SAMPLES.items():
            rounds.setdefault(("bare", cases), []).append(measure("bare", samples)["work"])
            rounds.setdefault(("assess", cases), []).append(measure("assess", samples)["whole"])
    best = {key: min(times) for key, times in rounds.items()}
    small, large = SAMPLES
    growth = {side: best[side, large] - best[side, small] for side in ("bare", "assess")}
    fixed = best["assess", small] - growth["assess"] * small / (large - small)
    print(
        f"\n| | {small:,} cases | {large:,} cases | growth | us a case |\n| --- | --- | --- | --- | --- |"
    )
    for side in ("bare", "assess"):
        per_case = growth[side] / (large - small) * 1e6
        print(
            f"| {side} | {best[side, small]:.2f} s | {best[side, large]:.2f} s | {growth[side]:.2f} s | {per_case:.0f} |"
        )
    print(
        f"\ngrowth ratio {growth['assess'] / growth['bare']:.2f} (wanted: at most 1.3); fixed cost {fixed:.2f} s (wanted: < 10)"
    )


if __name__ == "__main__":
    main()

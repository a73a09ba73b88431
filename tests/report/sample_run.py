"""Run folders made for the tests of the reports: one realistic, and variants that are awkward on purpose.

>>> import tempfile
>>> sorted(p.name for p in build(Path(tempfile.mkdtemp()) / "run").iterdir())
['findings.json', 'media', 'run.json']
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sample_risk import risky
from sample_supervisors import supervise

from roadworthy.finding import About, Finding
from roadworthy.statistics import Interval, wilson
from roadworthy.store.record import Record

CLASSES = (
    "T-shirt",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
CIRCUMSTANCES = {
    "fog": (0.86, 0.74, 0.58, 60),
    "motion_blur": (0.88, 0.81, 0.66, 80),
    "gaussian_noise": (0.87, 0.70, 0.41, 24),
    "low_contrast": (0.905, 0.89, 0.84, 36),
    "rotation": (0.90, 0.85, 0.77, 12),
}
SUPERVISORS = ("max_softmax", "mc_dropout_entropy", "knn_distance", "fused")
HOSTILE = "<script>alert(1)</script>"
N = 2000


def build(folder: Path, variant: str = "plain") -> Path:
    """Write a run folder; a variant changes one thing of the plain one."""
    run, findings, gallery, cases = _plain(variant)
    {
        "plain": lambda: None,
        "no_claims": lambda: run.update(claims=[], verdict="no claims"),
        "no_supervisors": lambda: _no_supervisors(run, findings),
        "media_none": lambda: run.update(media="none"),
        "wer": lambda: None,
        "mota": lambda: None,
        "many": lambda: None,
        "hostile": lambda: None,
        "detection": lambda: None,
        "text": lambda: None,
        "large_media": lambda: None,
        "supervised": lambda: supervise(run, findings, _circumstances(variant)),
        "bare": lambda: _bare(run, findings),
        "risky": lambda: risky(run, findings),
    }[variant]()
    write(folder, run, findings, None if run["media"] == "none" else gallery, cases)
    return folder


def write(
    folder: Path,
    run: dict[str, Any],
    findings: list[Finding],
    gallery: dict[str, Any] | None,
    cases: list[dict[str, str]],
) -> None:
    """The files of a run folder."""
    (folder / "media").mkdir(parents=True)
    content = dict(run)
    supervision = {key: content.pop(key, None) for key in ("supervisors", "recommended")}
    sections: dict[str, Any] = {"performance": {}, "supervision": supervision}
    if "risk" in content:
        sections["risk"] = content.pop("risk")
    for name, picture in (gallery or {"files": {}}).pop("files").items():
        (folder / name).write_bytes(picture)
    content["cases"] = {**content["cases"], "failures": cases if content["cases"]["failed"] else []}
    content |= {"sections": sections, "gallery": gallery or {}, "findings": findings}
    Record.model_validate(content).write(folder)


def png(pixels: np.ndarray) -> bytes:
    """A PNG of uint8 grey (h, w) or colour (h, w, 3) pixels."""
    height, width = pixels.shape[:2]
    kind = 2 if pixels.ndim == 3 else 0
    raw = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + name
            + content
            + struct.pack(">I", zlib.crc32(name + content))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(raw, 9))
        + chunk(b"IEND", b"")
    )


def _plain(
    variant: str,
) -> tuple[dict[str, Any], list[Finding], dict[str, Any], list[dict[str, str]]]:
    rng = np.random.default_rng(7)
    circumstances = _circumstances(variant)
    classes = [HOSTILE if variant == "hostile" and c == "Shirt" else c for c in CLASSES]
    measure = _measure(variant)
    findings = list(_performance(measure, circumstances, classes)) + list(
        _supervision(circumstances, rng)
    )
    claims = _claims(measure, circumstances, classes, findings)
    run = _run(measure, circumstances, classes, claims)
    return run, findings, _gallery(variant, circumstances, classes, rng), _cases(circumstances)


def _circumstances(variant: str) -> dict[str, tuple[float, float, float, float | None]]:
    known: dict[str, tuple[float, float, float, float | None]] = dict(CIRCUMSTANCES)
    if variant == "hostile":
        fog = known.pop("fog")
        return {
            HOSTILE: fog,
            **known,
            'a"quoted" & very_long_name_of_a_circumstance_that_goes_on': fog,
        }
    if variant == "many":
        rng = np.random.default_rng(3)
        return {
            f"circumstance_number_{i:02d}": (
                *sorted(rng.uniform(0.3, 0.9, 3))[::-1],
                float(rng.integers(1, 126)),
            )
            for i in range(40)
        }
    if variant == "supervised":
        return known | {"snowfall_in_headlights": (0.8, 0.6, 0.5, None)}
    return known


def _measure(variant: str) -> dict[str, Any]:
    if variant == "wer":
        return {
            "name": "wer",
            "better": "lower",
            "shape": "ratio",
            "failure": {"error": {"min": 0.3}},
        }
    if variant == "mota":
        return {"name": "mota", "better": "higher", "shape": "free", "failure": {}}
    return {
        "name": "accuracy",
        "better": "higher",
        "shape": "proportion",
        "failure": {"wrong": True},
    }


def _seen(measure: dict[str, Any], accuracy: float) -> float:
    """The measure's value where a classifier would have this accuracy."""
    return {"wer": 0.12 + 2.4 * (0.912 - accuracy), "mota": 0.61 - 2.1 * (0.912 - accuracy)}.get(
        measure["name"], accuracy
    )


def _interval(measure: dict[str, Any], value: float, n: int) -> Interval:
    if measure["shape"] == "proportion":
        return wilson(round(value * n), n)
    half = 1.96 * 0.5 / math.sqrt(n)
    return Interval(value - half, value + half, 0.95, "bootstrap")


def _performance(
    measure: dict[str, Any],
    circumstances: dict[str, tuple[float, float, float, float | None]],
    classes: list[str],
) -> Iterator[Finding]:
    name, better = measure["name"], measure["better"]
    assumed = (
        "cases are independent of each other",
        "cases without an answer are counted as wrong",
    )

    def at(about: About, accuracy: float, n: int = N, failed: int = 0) -> Iterator[Finding]:
        value = _seen(measure, accuracy)
        yield Finding(
            name,
            value,
            _interval(measure, value, n),
            n,
            about=about,
            better=better,
            assumptions=assumed,
            failed=failed,
        )
        rate = 1 - accuracy
        yield Finding(
            "failure_rate",
            rate,
            wilson(round(rate * n), n),
            n,
            about=about,
            better="lower",
            assumptions=assumed,
        )

    clean = _seen(measure, 0.912)
    yield from at(About(), 0.912)
    for c, (*values, _) in circumstances.items():
        for level, accuracy in enumerate(values, start=1):
            yield from at(
                About(circumstance=c, level=level), accuracy, failed=3 if level == 3 else 0
            )
            value = _seen(measure, accuracy)
            loss = 1 - value / clean if better == "higher" else value / clean - 1
            about = About(circumstance=c, level=level, versus="clean")
            details = {
                "quantity": name,
                "clean": clean,
                "here": value,
                "relative_drop": loss,
                "p": 0.0004 * level,
            }
            yield Finding(
                "difference",
                value - clean,
                Interval(value - clean - 0.018, value - clean + 0.017, 0.95, "paired score"),
                N,
                about=about,
                corrected="p is adjusted by Holm over 15 conditions",
                details=details,
            )
            yield Finding(
                "relative_drop",
                loss,
                Interval(loss - 0.02, loss + 0.02, 0.95, "linearised ratio"),
                N,
                about=about,
            )
    for i, c in enumerate(classes):
        yield from at(
            About(slice=f"label={c}"),
            (0.86, 0.98, 0.87, 0.92, 0.85, 0.97, 0.71, 0.96, 0.985, 0.955)[i],
            200,
        )
    yield Finding(
        name,
        math.nan,
        None,
        7,
        about=About(slice="brightness=unknown"),
        reason="fewer than 30 cases",
    )


def _supervision(
    circumstances: dict[str, tuple[float, float, float, float | None]], rng: Any
) -> Iterator[Finding]:
    for j, s in enumerate(SUPERVISORS):
        places = [("", None), *((c, level) for c in circumstances for level in (1.0, 2.0, 3.0))]
        for c, level in places:
            value = float(
                np.clip(0.93 - 0.04 * j - 0.08 * (level or 0) + rng.normal(0, 0.04), 0.38, 0.99)
            )
            about = About(circumstance=c, level=level, supervisor=s)
            if s == "knn_distance" and not c:
                yield Finding(
                    "auc_failure",
                    math.nan,
                    None,
                    N,
                    about=about,
                    reason="there are no failures here",
                )
                continue
            yield Finding(
                "auc_failure",
                value,
                Interval(value - 0.02, min(value + 0.02, 1), 0.95, "delong"),
                N,
                about=about,
            )
            if c:
                about = About(circumstance=c, level=level, supervisor=s, versus="clean")
                shift = min(0.55 + 0.13 * (level or 0), 0.99)
                yield Finding(
                    "auc_shift",
                    shift,
                    Interval(shift - 0.02, min(shift + 0.02, 1), 0.95, "delong"),
                    2 * N,
                    about=about,
                )


def _claims(
    measure: dict[str, Any],
    circumstances: dict[str, tuple[float, float, float, float | None]],
    classes: list[str],
    findings: list[Finding],
) -> list[dict[str, Any]]:
    name, lower = measure["name"], measure["better"] == "lower"
    at = {f.id: f for f in findings}
    first, second, *_ = circumstances

    def bound(found: Finding, direction: str, status: str) -> float | None:
        if found.interval is None:
            return None
        return (
            found.interval.low
            if (direction == "min") != (status == "breached")
            else found.interval.high
        )

    def claim(
        id: str, text: str, found: Finding, limit: float, status: str, why: str, **more: Any
    ) -> dict[str, Any]:
        direction = "max" if found.better == "lower" else "min"
        return {
            "id": id, "text": text, "quantity": found.quantity, "status": status, "value": found.value, "n": found.n,
            "about": str(found.about), "limit": limit,
            "interval": found.interval and found.interval.to_dict() | {"confidence": more.get("confidence", 0.95)},
            "direction": direction, "confidence": 0.95, "cases_to_settle": None, "why": why, "corrected": "", "members": [],
            "bound": bound(found, direction, status),
        } | more  # fmt: skip

    side = "at most" if lower else "at least"
    members = [
        {
            "about": f"label={c}", "value": f.value, "interval": f.interval.to_dict() if f.interval else None, "n": f.n,
            "status": status, "cases_to_settle": None, "bound": bound(f, "max" if lower else "min", status),
        }
        for c in classes
        for f in [at[f"{name} | label={c}"]]
        for status in ["breached" if c in ("Shirt", HOSTILE) else "met"]
    ]  # fmt: skip
    members.append(
        {"about": "brightness=unknown", "value": 0.8, "interval": None, "n": 7, "status": "inconclusive", "bound": None,
         "cases_to_settle": None, "why": "the slice has 7 cases, fewer than the 30 that are judged (smallest_slice)"}
    )  # fmt: skip
    clean, rate = at[f"{name} | clean"], at["failure_rate | clean"]
    shirt = at[f"{name} | label={classes[6]}"]
    fog, blur = at[f"{name} | {first}@1"], at[f"{name} | {second}@2"]
    step = 0.03 if lower else -0.03
    return [
        claim("REL-01", f"{name} {side} {clean.value + step:.2f} on clean data", clean, clean.value + step, "met",
              "the bound at 0.95 confidence keeps the limit"),
        claim("HAZ-07", f"{name} {side} {shirt.value - 4 * step:.2f} in every slice", shirt, shirt.value - 4 * step,
              "breached", "misses the limit in one place, and the bound on the other side does too", members=members,
              corrected="over 11 places: met needs every one, a breach is corrected by Holm"),
        claim("HAZ-09", f"{name} {side} {fog.value:.2f} in light {first}", fog, fog.value + step / 5, "inconclusive",
              "is not clear of the limit: about 14,200 cases would settle it", cases_to_settle=14200),
        claim("HAZ-10", f"{name} {side} {blur.value + step:.2f} in medium {second}", blur, blur.value + step, "met",
              "the bound at 0.95 confidence keeps the limit"),
        claim("OPS-02", "failure rate at most 12% on clean data", rate, 0.12, "met", "the bound keeps the limit",
              confidence=0.975),
        claim("REL-03", "fused finds failures with an AUC of at least 0.8", at["auc_failure | clean | fused"], 0.80,
              "inconclusive", "is not clear of the limit: about 3,100 cases would settle it", cases_to_settle=3100),
    ]  # fmt: skip


def _run(
    measure: dict[str, Any],
    circumstances: dict[str, tuple[float, float, float, float | None]],
    classes: list[str],
    claims: list[dict[str, Any]],
) -> dict[str, Any]:
    digest = hashlib.sha256(b"sample").hexdigest()
    total = N * (1 + 3 * len(circumstances))
    slices = [{"column": "label", "value": c, "n": 200, "too_small": False} for c in classes]
    return {
        "format": 2, "key": digest[:16], "name": "fashion-cnn", "status": "finished", "verdict": "breached",
        "created": "2026-03-01T14:05:09+00:00",
        "versions": {"roadworthy": "0.1.0", "python": "3.11.9", "numpy": "2.1.0", "torch": "2.13.0"}, "seed": 20260301,
        "command": "roadworthy assess assessment.yaml",
        "spec": {"subject": {"task": "classification"}, "smallest_slice": 30},
        "spec_text": "subject: {task: classification, torch: model.pt, version: cnn-1.4.0}\n"
        "data:\n  test: {bundled: fashion-mnist}\n"
        "circumstances:\n  fog: {transform: fog, levels: [1, 2, 3], exposure: 4, likelihood: 3, severity: 5}\n",
        "intended_use": "Sorting of returned garments on a conveyor, indoor light, one garment a picture.",
        "not_tested": ["garments of more than one piece", "pictures in colour", "cameras other than the one at the belt"],
        "media": "gallery",
        "subject": {
            "task": "classification", "adapter": "torch", "version": "cnn-1.4.0", "fingerprint": digest,
            "modules": [{"name": "cnn", "outputs": {"scores": "class_scores"}, "assessed": True, "fingerprint": digest}],
            "files": [{"path": "model.pt", "sha256": digest, "bytes": 1_640_122}],
        },
        "data": {
            "test": {"name": "fashion-mnist", "n": N, "groups": None, "classes": classes, "fingerprint": digest,
                     "source": "bundled", "licence": "MIT", "unreadable": 0},
            "calibration": {"name": "fashion-mnist", "n": 2000, "groups": None, "classes": classes,
                            "fingerprint": digest[::-1], "source": "bundled", "licence": "MIT", "unreadable": 2},
        },
        "measure": measure,
        "circumstances": [
            {"name": c, "kind": "transform", "transform": c, "table": "hendrycks", "levels": [1, 2, 3],
             "parameters": {"1": {"strength": 0.2}, "2": {"strength": 0.4}, "3": {"strength": 0.6}}, "port": "input",
             "where": None, "probability": 0.03, "exposure": 4, "likelihood": 3, "severity": 5, "significance": s,
             "description": ""}
            for c, (*_, s) in circumstances.items()
        ],
        "slices": [*slices, {"column": "brightness", "value": "unknown", "n": 7, "too_small": True}],
        "cases": {"total": total, "failed": 3 * len(circumstances), "computed": total - N, "from_cache": N},
        "timings": {"cases": 12.4, "subject": 41.7, "supervisors": 8.3, "analysis": 2.9},
        "supervisors": [
            *({"name": s, "module": "cnn", "applicable": True, "because": "", "parameters": {}} for s in SUPERVISORS),
            {"name": "surprise", "module": "cnn", "applicable": False,
             "because": "the adapter gives no layer activations", "parameters": {}},
        ],
        "claims": claims,
        "notes": [f"{3 * len(circumstances)} cases gave no answer and are counted as wrong",
                  "1 slice has fewer than 30 cases and is not judged"],
    }  # fmt: skip


def _images(n: int) -> tuple[np.ndarray, list[int]]:
    from importlib.resources import files

    path = Path(str(files("roadworthy.data.bundled"))) / "fashion-mnist-test.npz"
    if path.is_file():
        with np.load(path, allow_pickle=False) as content:
            return content["images"][:n], [int(x) for x in content["labels"][:n]]
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), [i % 10 for i in range(n)]


def _gallery(
    variant: str,
    circumstances: dict[str, tuple[float, float, float, float | None]],
    classes: list[str],
    rng: Any,
) -> dict[str, Any]:
    images, labels = _images(12)
    files: dict[str, bytes] = {}

    def stored(pixels: np.ndarray) -> str:
        content = png(pixels)
        name = f"media/{hashlib.sha256(content).hexdigest()[:16]}.png"
        files[name] = content
        return name

    def pair(i: int, circumstance: str, level: int, failure: bool) -> dict[str, Any]:
        image, truth = images[i % len(images)], classes[labels[i % len(images)]]
        wrong = classes[(labels[i % len(images)] + 4) % 10]
        record = {
            "sample": f"test-{i:04d}", "case": f"test-{i:04d}~{circumstance}@{level}",
            "circumstance": circumstance, "level": level, "truth": truth,
            "prediction": wrong if failure else truth, "clean_prediction": truth, "failure": failure, "boxes": None,
            "original": None, "made": None, "original_text": None, "made_text": None, "width": 28, "height": 28,
        }  # fmt: skip
        if variant == "text":
            said = "I need a train to Cambridge on Friday, arriving before nine in the morning."
            return record | {
                "original_text": said,
                "made_text": said.replace("train", "trian").replace("Friday", HOSTILE),
            }
        if variant == "detection":
            scene = np.full((120, 200, 3), 90, np.uint8)
            scene[40:90, 30:70] = (190, 160, 90)
            boxes = {
                "truth": [[30, 40, 70, 90], [120, 30, 170, 80]],
                "prediction": [[34, 44, 76, 94]],
            }
            noisy = np.clip(scene + rng.normal(0, 25, scene.shape), 0, 255).astype(np.uint8)
            both = {"original": stored(scene), "made": stored(noisy)}
            return record | both | {"boxes": boxes, "width": 200, "height": 120}
        if variant == "large_media":
            big = rng.integers(0, 256, (200, 300, 3), dtype=np.uint8)
            return record | {
                "original": stored(big),
                "made": stored(255 - big),
                "width": 300,
                "height": 200,
            }
        noisy = np.clip(image + rng.normal(0, 22 * level, image.shape), 0, 255).astype(np.uint8)
        return record | {"original": stored(image), "made": stored(noisy)}

    pairs = [
        pair(3 * i + level, c, level, level == 3 or (i + level) % 3 == 0)
        for i, c in enumerate(circumstances)
        for level in (1, 2, 3)
    ]
    worst = [pair(i, c, 3, True) for i, c in enumerate([*circumstances][:4])]
    return {"pairs": pairs, "worst": worst, "files": files}


def _cases(circumstances: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {"case": f"test-{i:04d}~{c}@3", "message": f"ValueError: the input of case {i} holds NaN"}
        for c in circumstances
        for i in range(3)
    ]


def _no_supervisors(run: dict[str, Any], findings: list[Finding]) -> None:
    run["supervisors"] = [
        {
            "name": "knn",
            "module": "cnn",
            "applicable": False,
            "because": "only predictions were given",
            "parameters": {},
        }
    ]
    findings[:] = [f for f in findings if not f.about.supervisor]


def _bare(run: dict[str, Any], findings: list[Finding]) -> None:
    """Nothing but clean data: no circumstances, slices, supervisors, claims or pictures."""
    findings[:] = [f for f in findings if f.about == About()]
    run.update(
        circumstances=[],
        slices=[],
        supervisors=[],
        claims=[],
        notes=[],
        not_tested=[],
        intended_use="",
    )
    run.update(
        verdict="no claims",
        media="none",
        cases={"total": N, "failed": 0, "computed": N, "from_cache": 0},
    )

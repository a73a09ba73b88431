"""A small version of the study of text recognition: RapidOCR on eight pictures."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

for package in ("rapidocr_onnxruntime", "matplotlib", "PIL", "onnx"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(
            f"{package}: pip install --no-deps -r studies/systems/requirements.txt",
            allow_module_level=True,
        )

STUDY = Path(__file__).resolve().parents[2] / "studies" / "systems" / "ocr"


def load(name):
    spec = importlib.util.spec_from_file_location(f"ocr_{name}", STUDY / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pictures():
    make = load("make")
    fonts = Path(importlib.util.find_spec("matplotlib").origin).parent / "mpl-data/fonts/ttf"
    return [make.picture(np.random.default_rng(i), fonts) for i in range(8)]


@pytest.fixture(scope="module")
def system():
    return load("system").build()


def run(system, images, requests=None):
    from roadworthy.subject.system import Cases

    return system.run(Cases([str(i) for i in range(len(images))], images), requests)


def test_the_modules_read_what_the_package_reads(pictures, system):
    from rapidocr_onnxruntime import RapidOCR

    plain = RapidOCR(det_limit_side_len=160, rec_batch_num=1, cls_batch_num=1)
    found = run(system, [image for image, _ in pictures])["system"].output
    for (image, _), text in zip(pictures, found, strict=True):
        lines, _ = plain(np.ascontiguousarray(image[:, :, ::-1]))
        assert text == " ".join(line[1] for line in lines or [])


def test_few_characters_are_wrong_on_clean_pictures_and_more_under_noise(pictures, system):
    from roadworthy.measures.speech import cer

    said = [text for _, text in pictures]
    noise = np.random.default_rng(0)
    noisy = [
        np.clip(image + noise.normal(0, 97, image.shape), 0, 255).astype(np.uint8)
        for image, _ in pictures
    ]
    clean = cer(run(system, [image for image, _ in pictures])["system"].output, said).value()
    worse = cer(run(system, noisy)["system"].output, said).value()
    assert clean < 0.1 < worse


def test_a_blank_picture_is_an_empty_text_without_activations_of_crops(system):
    from roadworthy.subject.needs import Layer, Passes

    asked = frozenset({Layer("penultimate"), Passes("own", 2, distance="edits")})
    trace = run(system, [np.full((160, 320, 3), 200, np.uint8)], {"rec": asked})
    assert trace["system"].output == [""] and trace["system"].ok.all()
    assert np.isnan(trace["rec"].columns["layer.penultimate"]).all()
    assert trace["rec"].columns["passes.own.2.edits"].tolist() == [[0.0, 0.0]]


def test_passes_differ_from_the_answer_and_leave_it_alone(pictures, system):
    from roadworthy.subject.needs import Passes

    asked = frozenset({Passes("own", 3, distance="iou")})
    images = [image for image, _ in pictures[:3]]
    with_passes = run(system, images, {"det": asked})
    assert with_passes["system"].output == run(system, images)["system"].output
    assert (with_passes["det"].columns["passes.own.3.iou"] > 0).any()

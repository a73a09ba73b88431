"""RapidOCR as a system of three modules: text detector, orientation classifier, recogniser.

The package is used as it comes: its own objects, thresholds and order of work (`RapidOCR.__call__`).
Added are names for what flows between its parts, and sessions that show their penultimate layers.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import rapidocr_onnxruntime
from rapidocr_onnxruntime import RapidOCR

from roadworthy import BOXES, CLASS_SCORES, IMAGES, TEXT, System, function_module
from roadworthy.data.values import IMAGE
from roadworthy.subject.adapters.onnx_split import SplitSession

DROPOUT = 0.1
MODELS = Path(rapidocr_onnxruntime.__file__).parent / "models"


class Engine:
    """RapidOCR with sessions that can be looked into. Crops are read one by one, so that the text
    of one does not depend on the width of the others; images are not enlarged for the detector."""

    def __init__(self) -> None:
        self.ocr = RapidOCR(det_limit_side_len=160, rec_batch_num=1, cls_batch_num=1)
        parts = (self.ocr.text_det.infer, self.ocr.text_cls.infer, self.ocr.text_rec.session)
        files = ("ch_PP-OCRv4_det_infer", "ch_ppocr_mobile_v2.0_cls_infer", "ch_PP-OCRv4_rec_infer")
        for part, file in zip(parts, files, strict=True):
            part.session = SplitSession(MODELS / f"{file}.onnx")
        self.det, self.cls, self.rec = (part.session for part in parts)

    def detect(self, image, rng=None):
        """Where text is, and a crop of each place, in reading order."""
        image = np.ascontiguousarray(
            image[:, :, ::-1] if image.ndim == 3 else np.stack([image] * 3, 2)
        )
        with self.det.dropout(DROPOUT, rng):
            quads, _ = self.ocr.auto_text_det(image)
        quads = [] if quads is None else quads
        corners = [[*quad.min(axis=0), *quad.max(axis=0)] for quad in quads]
        crops = self.ocr.get_crop_img_list(image, [q.astype(np.float32) for q in quads])
        return {"boxes": corners, "crops": crops, "penultimate": self.det.features}

    def orient(self, crops, rng=None):
        """The crops upright, and how likely they are to stand as they are or upside down."""
        upright, scores, features = [], [], []
        for crop in crops:
            with self.cls.dropout(DROPOUT, rng):
                (turned,), ((label, score),), _ = self.ocr.text_cls([crop])
            upright.append(turned)
            scores.append([score, 1 - score] if label == "0" else [1 - score, score])
            features.append(self.cls.features[0])
        # Without a crop nothing speaks for either.
        likely = np.mean(scores, axis=0) if scores else np.array([0.5, 0.5])
        return {"turned": likely, "upright": upright, "penultimate": _rows(features, 200)}

    def recognise(self, upright, rng=None):
        """The texts of the crops that the recogniser is sure enough of, as RapidOCR reports them."""
        texts, features = [], []
        for crop in upright:
            with self.rec.dropout(DROPOUT, rng):
                ((text, score),), _ = self.ocr.text_rec([crop])
            texts += [text] if score >= self.ocr.text_score else []
            features.append(self.rec.features[0])
        return {"text": " ".join(texts), "penultimate": _rows(features, 120)}


def _rows(features: list[np.ndarray], width: int) -> np.ndarray:
    return np.stack(features) if features else np.zeros((0, width), np.float32)


def build() -> System:
    engine, shown = Engine(), ("penultimate",)
    modules = {
        "det": function_module(
            engine.detect, outputs={"boxes": BOXES, "crops": IMAGES}, layers=shown
        ),
        "cls": function_module(
            engine.orient, outputs={"turned": CLASS_SCORES, "upright": IMAGES}, layers=shown
        ),
        "rec": function_module(engine.recognise, outputs={"text": TEXT}, layers=shown),
    }
    return System(
        modules=modules,
        wires={"det.image": "input", "cls.crops": "det.crops", "rec.upright": "cls.upright"},
        output="rec.text",
        input_kind=IMAGE,
        version="rapidocr_onnxruntime 1.4.4",
    )

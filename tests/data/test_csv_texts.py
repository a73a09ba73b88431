"""A table of images and the texts they show."""

import cv2
import numpy as np

from roadworthy.data.loaders.csv import csv
from roadworthy.data.values import TEXT


def test_a_column_of_texts_is_the_truth_and_the_rest_is_metadata(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((4, 6), np.uint8))
    (tmp_path / "cases.csv").write_text('image,said,font\na.png,"one, two",serif\n')
    data = csv(path="cases.csv", text="said", base=tmp_path)
    assert data.target_kind is TEXT and list(data.targets) == ["one, two"]
    assert data.inputs[0].shape == (4, 6)
    assert data.metadata["font"].tolist() == ["serif"]

"""Steps along the gradient: uphill in the cross-entropy within a ball, and to the nearest boundary.

They take a batch of images from 0 to 1, of which no row depends on another, and their labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.search.query import Norm, Query, Rngs, Tensor
from roadworthy.statistics.arguments import check_choice


def climbed(
    images: Tensor,
    labels: Tensor,
    query: Query,
    epsilon: Any,
    norm: Norm,
    rngs: Rngs | None = None,
    *,
    step: Any,
    steps: int,
) -> Tensor:
    """Images after steps that raise the loss, each cut off at black and white and at `epsilon`.

    `epsilon` and `step` are numbers, or tensors of shape (n, 1, 1) or (n, 1, 1, 1): one for each row.
    With `rngs` the first step begins at a random point of the ball.
    """
    own = checked_labels(images, labels, norm, epsilon).unsqueeze(1)

    def cross_entropy(scores: Tensor) -> Tensor:
        _refuse_unknown(own, scores)
        return -scores.log_softmax(1).gather(1, own)[:, 0]

    made = images if rngs is None else _random_start(images, rngs, epsilon, norm)
    for _ in range(steps):
        slope = query.gradient(made, cross_entropy).nan_to_num()
        # Exactly the norm: a constant added to it would shorten the steps of sure answers.
        slope = slope.sign_() if norm == "linf" else slope.div_(_lengths(slope))
        moved = slope.mul_(step).add_(made).clamp_(0, 1).sub_(images)
        if norm == "linf":
            moved.clamp_(-epsilon, epsilon)
        else:
            moved *= (epsilon / _lengths(moved)).clamp(max=1)
        made = moved.add_(images).clamp_(0, 1)  # rounding may leave a pixel just above white
    return made


def answered_right(images: Tensor, labels: Tensor, query: Query) -> Tensor:
    """Which images the subject answers with their label; an answer with NaN is wrong."""
    scores = query.scores(images)
    _refuse_unknown(labels, scores)
    return (scores.argmax(1) == labels) & scores.isfinite().all(1)


def checked_labels(images: Tensor, labels: Any, norm: str, epsilon: Any = 1.0) -> Tensor:
    """The labels as a tensor beside the images; bad arguments are refused by a sentence."""
    import torch

    check_choice("norm", norm, ("linf", "l2"))
    size, truth = torch.as_tensor(epsilon), torch.as_tensor(labels, device=images.device)
    if not ((size > 0) & size.isfinite()).all():
        raise ValueError(f"epsilon is {epsilon}; a finite number above 0 was expected")
    if not (len(images) and ((images >= 0) & (images <= 1)).all()):
        raise ValueError("there are no images, or pixels that are NaN or not from 0 to 1")
    if truth.shape != images.shape[:1] or truth.is_floating_point() or (truth < 0).any():
        raise ValueError(f"labels are {labels}; {len(images)} class numbers from 0 were expected")
    return truth.long()


def _refuse_unknown(labels: Tensor, scores: Tensor) -> None:
    highest, known = int(labels.max()), scores.shape[1]
    if highest >= known:
        raise ValueError(f"a label is {highest}, and the subject has the classes 0 to {known - 1}")


def _random_start(images: Tensor, rngs: Rngs, epsilon: Any, norm: Norm) -> Tensor:
    """A uniform point of the ball around each image, cut off at black and white."""
    import torch

    shape, unit = tuple(images.shape[1:]), []
    for rng, _ in zip(rngs, images, strict=True):
        unit.append(rng.uniform(-1, 1, shape) if norm == "linf" else rng.standard_normal(shape))
        if norm == "l2":  # a normal vector's direction is uniform; r^d of a ball lies within r
            unit[-1] *= rng.random() ** (1 / unit[-1].size) / np.linalg.norm(unit[-1])
    return (images + epsilon * torch.from_numpy(np.stack(unit)).to(images)).clamp(0, 1)


def to_boundary(images: Tensor, labels: Tensor, query: Query, norm: Norm, classes: int) -> Tensor:
    """The smallest change onto a boundary to one of the `classes` highest other classes, if scores were
    linear (Moosavi-Dezfooli et al. 2016, equations 8 and 9; section 3.3 for L-inf)."""
    import torch

    own, gaps = labels.unsqueeze(1), []

    def ahead(scores: Tensor) -> Tensor:
        others = scores.detach().scatter(1, own, -float("inf"))
        nearby = others.topk(min(classes, scores.shape[1] - 1), dim=1).indices
        found = scores.gather(1, nearby) - scores.gather(1, own)
        gaps.append(found.detach().abs().T)
        return found

    slopes = query.gradient(images, ahead).flatten(2)
    sizes = torch.linalg.vector_norm(slopes, 1 if norm == "linf" else 2, dim=2)
    distances = (gaps[0] / sizes).nan_to_num(nan=float("inf"))
    pick = distances.argmin(0), torch.arange(len(images), device=images.device)
    slope, size, distance = slopes[pick], sizes[pick].unsqueeze(1), distances[pick].unsqueeze(1)
    change = distance * (slope.sign() if norm == "linf" else slope / size)
    return change.nan_to_num(0, 0, 0).reshape(images.shape).to(images)


def _lengths(values: Tensor) -> Tensor:
    """The Euclidean length of each row, and 1 where it is 0, shaped to divide the rows."""
    import torch

    # In float64: squares of small gradients are no float32.
    length = torch.linalg.vector_norm(values.flatten(1), dim=1, dtype=torch.float64)
    length = length.where(length > 0, length.new_ones(()))
    return length.to(values.dtype).reshape(-1, *[1] * (values.ndim - 1))

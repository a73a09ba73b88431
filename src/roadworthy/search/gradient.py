"""Searches along the gradient: steps that raise a loss within a ball, and DeepFool's linearisation.

Both work on a batch of torch images from 0 to 1, whose rows do not depend on each other, and ask the
subject through a `Query` alone.

>>> import torch
>>> class Sides:
...     def scores(self, x):
...         return x.flatten(1)
...     def gradient(self, x, loss):
...         given = x.detach().requires_grad_()
...         return torch.autograd.grad(loss(self.scores(given)).sum(), given)[0]
>>> image = torch.tensor([[[0.6, 0.5]]])
>>> climbed(image, [0], Sides(), epsilon=0.1, norm="linf", step=0.1, steps=1)
tensor([[[0.5000, 0.6000]]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from roadworthy.search.query import Loss, Norm, Query, Tensor
from roadworthy.statistics.arguments import check_choice

Raised = Literal["cross_entropy", "margin"]
"""The loss that steps raise; see `_loss`."""


def climbed(
    images: Tensor,
    labels: Any,
    query: Query,
    *,
    epsilon: Any,
    norm: Norm,
    step: Any,
    steps: int,
    loss: Raised = "cross_entropy",
    rngs: Sequence[np.random.Generator] | None = None,
) -> Tensor:
    """Images after `steps` steps of length `step` that raise the loss, none further than `epsilon`.

    After a step the image is cut off at black and white and brought back into the ball. `epsilon`
    and `step` are numbers, or tensors of shape (n, 1, 1) or (n, 1, 1, 1) with one for each row.
    With `rngs`, one a row, the first step begins at a random point of the ball.
    """
    check_choice("loss", loss, ("cross_entropy", "margin"))
    truth = checked(images, labels, epsilon=epsilon, norm=norm)
    raised = _loss(truth, loss)
    made = images if rngs is None else _drawn(images, rngs, epsilon, norm)
    for _ in range(steps):
        upwards = _steepest(query.gradient(made, raised), norm)
        made = _within((made + step * upwards).clamp(0, 1), images, epsilon, norm)
    return made


def linearised(
    images: Tensor,
    labels: Any,
    query: Query,
    *,
    norm: Norm,
    overshoot: float,
    steps: int,
    classes: int,
) -> Tensor:
    """DeepFool: step onto the nearest linearised boundary until the answer is not the label.

    Moosavi-Dezfooli et al. 2016, algorithm 2; for L-inf section 3.3. Boundaries to the `classes`
    classes with the highest scores are looked at. The answer is asked for with the way so far lengthened by
    `overshoot`; steps go on from the way itself, or they would end on this side of the boundary.
    Rows that are wrong already stay as they are.
    """
    truth = checked(images, labels, norm=norm)
    rows, highest = truth.new_tensor(range(len(images))), int(truth.max())
    made, reached = images.clone(), images.clone()
    for _ in range(steps):
        scores = query.scores(made[rows])
        _refuse_unknown(highest, scores)
        rows = rows[_right(scores, truth[rows])]
        if not len(rows):
            break
        begin = images[rows]
        reached[rows] += _to_boundary(reached[rows], truth[rows], query, norm, classes)
        reached[rows] = reached[rows].clamp(0, 1)
        made[rows] = (begin + (1 + overshoot) * (reached[rows] - begin)).clamp(0, 1)
    return made


def wrong(images: Tensor, labels: Tensor, query: Query) -> np.ndarray:
    """Which images the subject answers with another class than the label, or with NaN."""
    found: np.ndarray = (~_right(query.scores(images), labels)).cpu().numpy()
    return found


def checked(images: Tensor, labels: Any, *, epsilon: Any = 1.0, norm: str = "linf") -> Tensor:
    """The labels as a tensor beside the images; bad arguments are refused by a sentence."""
    import torch

    check_choice("norm", norm, ("linf", "l2"))
    size = torch.as_tensor(epsilon)
    if not bool(((size > 0) & size.isfinite()).all()):
        raise ValueError(f"epsilon is {epsilon}; a finite number above 0 was expected")
    if not len(images):
        raise ValueError("there are no images to attack")
    sound = ((images >= 0) & (images <= 1)).flatten(1).all(1)
    if not bool(sound.all()):
        row = int((~sound).nonzero()[0])
        raise ValueError(f"image {row} has NaN pixels, or pixels that are not from 0 to 1")
    truth = torch.as_tensor(labels, device=images.device)
    if truth.shape != images.shape[:1] or truth.is_floating_point() or bool((truth < 0).any()):
        raise ValueError(
            f"labels must be {len(images)} class numbers from 0, one for each image; found {labels}"
        )
    return truth.long()


def _refuse_unknown(highest: int, scores: Tensor) -> None:
    known = scores.shape[1]
    if highest >= known:
        raise ValueError(f"a label is {highest}, and the subject has the classes 0 to {known - 1}")


def _right(scores: Tensor, labels: Tensor) -> Tensor:
    return (scores.argmax(1) == labels) & scores.isfinite().all(1)


def _loss(labels: Tensor, name: Raised) -> Loss:
    """What steps raise: -log p_y, or m = log Σ_{j≠y} exp z_j - z_y, one number a row.

    The first is log(1 + exp m), so that their gradients point the same way and a step is the same. In
    float32 that of -log p_y is rounded, and vanishes, where the subject is sure: p_y is 1 from a margin of
    17 on, and exp(-104) is 0. That of m does not.
    """
    own, highest = labels.unsqueeze(1), int(labels.max())

    def cross_entropy(scores: Tensor) -> Tensor:
        _refuse_unknown(highest, scores)
        return -scores.log_softmax(1).gather(1, own)[:, 0]

    def margin(scores: Tensor) -> Tensor:
        _refuse_unknown(highest, scores)
        return scores.scatter(1, own, -float("inf")).logsumexp(1) - scores.gather(1, own)[:, 0]

    return margin if name == "margin" else cross_entropy


def _steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """The change of length 1 that raises the loss fastest; 0 where there is no gradient."""
    known = gradient.nan_to_num()
    if norm == "linf":
        return known.sign()
    length = _lengths(known)
    # Exactly the norm: a constant added to it would shorten the steps of sure answers.
    return known / length.where(length > 0, length.new_ones(()))


def _within(made: Tensor, images: Tensor, epsilon: Any, norm: Norm) -> Tensor:
    """The nearest images no further than epsilon from where they began."""
    if norm == "linf":
        return made.minimum(images + epsilon).maximum(images - epsilon)
    moved = made - images
    length = _lengths(moved)
    shrunk = (epsilon / length.where(length > 0, length.new_ones(()))).clamp(max=1)
    # Adding what was subtracted may round to just above white.
    return (images + moved * shrunk).clamp(0, 1)


def _drawn(images: Tensor, rngs: Sequence[np.random.Generator], epsilon: Any, norm: Norm) -> Tensor:
    """A uniform point of the ball around each image, cut off at black and white."""
    import torch

    shape = tuple(images.shape[1:])
    if len(rngs) != len(images):
        raise ValueError(f"{len(images)} images need as many generators; found {len(rngs)}")
    moves = []
    for rng in rngs:
        if norm == "linf":
            moves.append(rng.uniform(-1, 1, shape))
            continue
        # A normal vector has a uniform direction; of a ball's volume r^d lies within radius r.
        normal = rng.standard_normal(shape)
        radius = rng.random() ** (1 / normal.size)
        moves.append(normal * (radius / np.linalg.norm(normal)))
    unit = torch.from_numpy(np.stack(moves)).to(images)
    return (images + epsilon * unit).clamp(0, 1)


def _to_boundary(images: Tensor, labels: Tensor, query: Query, norm: Norm, classes: int) -> Tensor:
    """The smallest change that reaches a boundary if scores were linear (eq. 8 and 9)."""
    import torch

    own, gaps = labels.unsqueeze(1), images.new_zeros(0)

    def ahead(scores: Tensor) -> Tensor:
        nonlocal gaps
        others = scores.detach().scatter(1, own, -float("inf"))
        nearby = others.topk(min(classes, scores.shape[1] - 1), dim=1).indices
        found = scores.gather(1, nearby) - scores.gather(1, own)
        gaps = found.detach().abs().T
        return found

    flat = query.gradient(images, ahead).flatten(2)
    sizes = torch.linalg.vector_norm(flat, 1 if norm == "linf" else 2, dim=2)
    far = (gaps / sizes).nan_to_num(nan=float("inf"))
    nearest = far.argmin(0)
    every = torch.arange(len(images), device=images.device)
    distance, size = far[nearest, every].unsqueeze(1), sizes[nearest, every].unsqueeze(1)
    slope = flat[nearest, every]
    change = distance * (slope.sign() if norm == "linf" else slope / size)
    return change.nan_to_num(0, 0, 0).reshape(images.shape)


def _lengths(values: Tensor) -> Tensor:
    """The Euclidean length of each row, shaped so that it can be multiplied with them.

    In float64: squares of the small gradients of sure answers are no float32.
    """
    import torch

    length = torch.linalg.vector_norm(values.flatten(1), dim=1, dtype=torch.float64)
    return length.to(values.dtype).reshape(-1, *[1] * (values.ndim - 1))

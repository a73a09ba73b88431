"""Arrays on a torch device: moved once, computed there in the precision that was asked for, fetched once.

``"cpu"`` means numpy wherever a `device` is asked for; any other name is torch's, so that ``"cpu:0"`` runs torch's code here.

>>> to_device(np.array([1.0, 2.0]), "cpu:0").sum().item()
3.0
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.registry import not_installed


def torch_on(device: str) -> Any:
    """Torch, for another device than numpy's; its float32 products must be what they say, and it must know float64."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{not_installed(f'device {device!r} needs torch', 'torch')}, or use device='cpu'"
        ) from error
    if torch.get_float32_matmul_precision() != "highest":
        raise ValueError(
            "torch.set_float32_matmul_precision lets float32 products be rounded to fewer digits, so that neighbours are missed; "
            "set it to 'highest', or use device='cpu'"
        )
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"device {device!r} cannot hold float64 here ({error}); use device='cpu'"
        ) from error
    return torch


def to_device(values: np.ndarray, device: str) -> Any:
    """A tensor of the same numbers and type; read-only memory, such as a mapped file's, is copied first."""
    torch = torch_on(device)
    values = np.ascontiguousarray(values)
    return torch.from_numpy(values if values.flags.writeable else values.copy()).to(device)


def whitened_on(points: np.ndarray, centre: np.ndarray, factor: np.ndarray, device: str) -> Any:
    """L⁻¹(x - centre) as a float64 tensor, one row a point."""
    torch = torch_on(device)
    moved = to_device(points, device).double() - to_device(centre, device)
    return torch.linalg.solve_triangular(to_device(factor, device), moved.T, upper=False).T


def gram_on(points: np.ndarray, centre: np.ndarray, device: str) -> np.ndarray:
    """XᵀX of the points around their centre (one row, or one for every point), in float64."""
    moved = to_device(points, device).double() - to_device(centre, device)
    product: np.ndarray = (moved.T @ moved).cpu().numpy()
    return product


def log_kernel_sums_on(queries: Any, points: Any, halves: Any, size: int) -> np.ndarray:
    """log Σ_i exp(-|q - p_i|²/2) of float64 tensors, `size` queries at once; `halves` are |p_i|²/2."""
    torch = torch_on(str(points.device))
    sums = torch.empty(len(queries), dtype=torch.float64, device=points.device)
    for start in range(0, len(queries), size):
        part = queries[start : start + size]
        exponents = torch.addmm(-halves, part, points.T)
        sums[start : start + size] = torch.logsumexp(exponents, dim=1) - 0.5 * part.square().sum(
            dim=1
        )
    fetched: np.ndarray = sums.cpu().numpy()
    return fetched

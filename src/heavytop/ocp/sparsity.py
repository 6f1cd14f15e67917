"""Sparsity of the derivatives of intervals, from the patterns of the rates and the links."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop.ocp.shooting import Shooting


@dataclass(frozen=True, eq=False)
class IntervalPatterns:
    """Masks of one interval.

    Attributes
    ----------
    slope : (nx, ny) of the Jacobian by the variables of the node. next_slope : (nx, ne) by the chart coordinates of the next one.
    curve : (ny, ny), cross_curve : (ny, ne), next_curve : (ne, ne) of the Hessian. linked : whether links are nonlinear.
    """

    slope: np.ndarray
    next_slope: np.ndarray
    curve: np.ndarray
    cross_curve: np.ndarray
    next_curve: np.ndarray
    linked: bool


def interval_patterns(shooting: Shooting) -> IntervalPatterns:
    """Propagate dependencies through the stages of an interval."""
    layout, rates, a = shooting.layout, shooting.rates, shooting.tableau.matrix
    nx, ny, ne = layout.nx, layout.size, layout.ne
    first, second = rates.rho.patterns
    size = nx + layout.nu * (1 + int(shooting.rated))  # of the arguments of the cost per time
    gradient, curved = np.zeros(size, dtype=bool), np.zeros((size, size), dtype=bool)
    curved[: nx + layout.nu, : nx + layout.nu] = second
    if shooting.integrand is not None:
        own_first, own_second = shooting.integrand.patterns
        curved |= own_second
        gradient = own_first[0]
    dx = np.zeros((nx, ny), dtype=bool)
    dx[np.arange(nx), np.arange(nx)] = True
    curve = np.zeros((ny, ny), dtype=bool)
    implicit = shooting.tableau.implicit
    if implicit:  # every stage depends on all others: the closure under the rates
        dx[:, :] = _reached(first, dx, shooting)
    for step in range(min(shooting.substeps, 2)):  # further steps add no dependency
        dk: list[np.ndarray] = []
        for i in range(shooting.tableau.stages):
            dz = np.zeros((size, ny), dtype=bool)
            dz[:nx] = dx
            for j in () if implicit else range(i):
                if a[i, j] != 0.0:
                    dz[:nx] |= dk[j]
                    if layout.free:
                        dz[:nx, layout.tau] = True
            dz[nx : nx + layout.nu] = (shooting._input_slopes[step * shooting.tableau.stages + i] != 0) | (
                shooting._input_slopes[-1] != 0
            )
            if shooting.rated:
                dz[nx + layout.nu :, layout.c] = np.eye(layout.nu, dtype=bool)
                dz[nx + layout.nu :, layout.tau] |= layout.free
            dk.append(first @ dz[: nx + layout.nu])
            curve |= dz.T @ curved @ dz
            if layout.free:
                crossed = dk[-1].any(axis=0) | (gradient @ dz)
                curve[layout.tau] |= crossed
                curve[:, layout.tau] |= crossed
        for slope in dk:
            dx = dx | slope
        if layout.free:
            dx[:, layout.tau] = True
    link_first, link_second = rates.link.patterns
    bent = bool(link_second.any())
    slope = np.concatenate([link_first[:, :ne] @ dx[:ne], dx[ne:]])
    next_slope = np.zeros((nx, ne), dtype=bool)
    next_slope[:ne] = link_first[:, ne:]
    cross = next_curve = np.zeros((ny, ne), dtype=bool)
    if bent:
        curve |= dx[:ne].T @ link_second[:ne, :ne] @ dx[:ne]
        cross, next_curve = dx[:ne].T @ link_second[:ne, ne:], link_second[ne:, ne:]
    else:
        next_curve = np.zeros((ne, ne), dtype=bool)
    return IntervalPatterns(slope, next_slope, curve, cross, next_curve, bent)


def _reached(first: np.ndarray, dx: np.ndarray, shooting: Shooting) -> np.ndarray:
    """Which variables (nx, ny) reach the states of the stages of an implicit method."""
    layout, nx = shooting.layout, len(dx)
    dz = np.concatenate([dx, np.any([slope != 0 for slope in shooting._input_slopes], axis=0)])
    if layout.free:
        dz[:nx, layout.tau] = True
    while True:
        more = dz[:nx] | (first @ dz)
        if np.array_equal(more, dz[:nx]):
            return more
        dz[:nx] = more

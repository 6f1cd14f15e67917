"""The loop of a law, linearised and cut at the inputs: loci, step responses, Bode and Nyquist plots, state-space matrices.

With the plant x' = A x + B u and the law u = -K x the loop at input i, cut there while the others stay closed, is

    L_i(s) = k_i (s - A + B_o K_o)^-1 b_i,

with column b_i of B, row k_i of K, and B_o, K_o without them. It is at the edge of stability where L_i(i w) = -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import numbers
from heavytop._format import counted
from heavytop.control.linear.linearised_loop import ordered
from heavytop.errors import ControlError, unknown_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DECADES, PER_DECADE = 1.5, 200
"""Decades beyond the slowest and the fastest pole, and frequencies in each."""
PERIODS, SAMPLES = 8.0, 500
"""Duration of a step response in periods 1/|p| of the slowest pole, and number of its samples."""
ZERO = 1e-9
"""Gain of a state, relative to the largest one, that counts as zero: the law ignores it."""
NEUTRAL = 1e-6
"""Largest size of a pole (1/s) that counts as zero."""


@dataclass(frozen=True, eq=False, repr=False)
class FeedbackLoop:
    """A linearised plant with its law. Made by ``law.loop()``.

    Attributes
    ----------
    A : (n, n), B : (n, nu) of the plant with the states of the law. K : (nu, n) of the law u = -K x.
    states : (n,) names; inputs : (nu,) names. name : name of the model.

    Examples
    --------
    >>> import heavytop as ht
    >>> cart = ht.library.cart_pole().derive()
    >>> loop = ht.control.lqr(cart, [0.0, 0.0]).loop()
    >>> loop
    FeedbackLoop('cart and pole': 4 states, 1 input)
    >>> bool(abs(loop.locus([1e4])[0, 0]) < 0.01)
    True
    """

    A: np.ndarray
    B: np.ndarray
    K: np.ndarray
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    name: str = "loop"

    def __repr__(self) -> str:
        return (
            f"FeedbackLoop({self.name!r}: {counted(len(self.states), 'state')}, {counted(len(self.inputs), 'input')})"
        )

    @property
    def closed(self) -> np.ndarray:
        """A - B K (n, n)."""
        return self.A - self.B @ self.K

    def poles(self) -> np.ndarray:
        """Poles (n,) of the closed loop, slowest first, 1/s."""
        return ordered(np.linalg.eigvals(self.closed))

    def frequencies(self) -> np.ndarray:
        """Frequencies (rad/s) that show the loop: 1.5 decades beyond its slowest and fastest pole."""
        sizes = np.abs(np.concatenate([np.linalg.eigvals(self.A), np.linalg.eigvals(self.closed)]))
        sizes = sizes[sizes > NEUTRAL * max(1.0, float(np.max(sizes)))]
        low, high = (np.log10(np.min(sizes)), np.log10(np.max(sizes))) if len(sizes) else (0.0, 0.0)
        count = int(PER_DECADE * (high - low + 2 * DECADES))
        return np.logspace(low - DECADES, high + DECADES, count)

    def locus(self, frequencies: Any = None) -> np.ndarray:
        """L_i(i w) (m, nu) at frequencies (m,) in rad/s, each input cut alone."""
        w = self.frequencies() if frequencies is None else np.atleast_1d(numbers(frequencies, "frequencies"))
        eye, found = np.eye(len(self.A)), []
        for i in range(len(self.inputs)):
            others = np.delete(np.arange(len(self.inputs)), i)
            around = self.A - self.B[:, others] @ self.K[others]
            solved = np.linalg.solve(1j * w[:, None, None] * eye - around, self.B[:, i, None].astype(complex))
            found.append((self.K[i] @ solved)[..., 0])
        return np.stack(found, axis=-1)

    def step_response(self, of: str | int, times: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times (m,), deviations (m, n) and inputs (m, nu) after a unit step of the set point of a state: u = -K (x - e).

        Parameters
        ----------
        of : name of the state, or its index. times : s; default: eight periods of the slowest pole.
        """
        from scipy.linalg import expm

        k = self._index(of)
        poles = self.poles()
        slow = np.abs(poles[np.abs(poles) > NEUTRAL])
        t = (
            np.linspace(0.0, PERIODS / float(np.min(slow, initial=np.inf) if len(slow) else 1.0), SAMPLES)
            if times is None
            else np.atleast_1d(numbers(times, "times"))
        )
        n = len(self.A)
        # x' = (A - B K) x + B K e, with the constant e as a further state
        whole = np.zeros((n + 1, n + 1))
        whole[:n, :n], whole[:n, n] = self.closed, self.B @ self.K[:, k]
        steps = np.diff(t, prepend=0.0)
        moved, x, rows = {}, np.append(np.zeros(n), 1.0), []
        for h in steps:
            if float(h) not in moved:
                moved[float(h)] = expm(h * whole)
            x = moved[float(h)] @ x
            rows.append(x[:n])
        deviations = np.array(rows)
        return t, deviations, -(deviations - np.eye(n)[k]) @ self.K.T

    def _index(self, of: str | int) -> int:
        if isinstance(of, str):
            if of not in self.states:
                raise unknown_name("state of the loop", of, self.states)
            return self.states.index(of)
        return range(len(self.states))[of]

    # --- other packages and pictures ------------------------------------------------------------------------------------------

    def state_space(self, closed: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Matrices (A, B, C, D): of the plant with the outputs K x, whose feedback is negative; or closed, from set points to all states."""
        n, nu = self.B.shape
        if closed:
            return self.closed, self.B @ self.K, np.eye(n), np.zeros((n, n))
        return self.A, self.B, self.K, np.zeros((nu, nu))

    def to_control(self, closed: bool = False) -> Any:
        """The same as ``StateSpace`` of the package python-control, with names (``pip install control``)."""
        try:
            package = import_module("control")
        except ImportError as error:
            raise ControlError("the package python-control is not installed: pip install control.") from error
        outputs = list(self.states) if closed else list(self.inputs)
        inputs = [f"set point of {name}" for name in self.states] if closed else list(self.inputs)
        plain = [name.replace(".", "_") for name in (*self.states, *inputs, *outputs)]
        n, m = len(self.states), len(inputs)
        return package.ss(
            *self.state_space(closed), states=plain[:n], inputs=plain[n : n + m], outputs=plain[n + m :], name=self.name
        )

    def bode(self, path: str | Path | None = None) -> Figure:
        """Magnitude and phase of the loop at every input, with the crossings of magnitude 1; written to ``path`` if given."""
        from heavytop.show import plot_bode

        return plot_bode(self, path)

    def nyquist(self, path: str | Path | None = None) -> Figure:
        """Loci of the loop in the complex plane, with the point -1; written to ``path`` if given."""
        from heavytop.show import plot_nyquist

        return plot_nyquist(self, path)

    def step(self, of: Sequence[str] | str | None = None, path: str | Path | None = None) -> Figure:
        """Responses to unit steps of the set points of some states, by default all places with gains; written to ``path`` if given."""
        from heavytop.show import plot_steps

        gains = np.max(np.abs(self.K), axis=0, initial=0.0)
        places = [self.states[k] for k in range(len(self.states) // 2) if gains[k] > ZERO * np.max(gains)]
        names = places if of is None else (of,) if isinstance(of, str) else tuple(of)
        if not names:
            raise ControlError("give at least one state whose set point steps.")
        return plot_steps(self, names, path)

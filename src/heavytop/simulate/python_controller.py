"""Controllers that are computed in Python at every sample, inside whatever is traced around them.

Some controllers are no straight line of native code: predictive control solves a program whose work depends on its data. Such a controller
has a ``host``. Its traced function represents it: it passes the first entries of the signal on as inputs ``u``, and outputs the state it sees (the
outputs of :data:`SEEN`). So wrappers go around it as around any law: they change what it sees and what becomes of its inputs, with memories,
own signals and channels. At every sample the run evaluates the function, calls the host with that state, writes the
answer into the signal and goes on in native code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from heavytop._arrays import numbers
from heavytop.errors import ShapeError, SimulationError
from heavytop.simulate.controller import BoundLaw

SEEN = ("seen_t", "seen_q", "seen_v")
"""Outputs of a function that represents a host: time, configuration and velocity given to the host."""

Session = Callable[[float, np.ndarray, np.ndarray], Any]


class Host(Protocol):
    """What answers outside of the native code.

    Attributes
    ----------
    answer_size : number of its inputs u, which are the first entries of the signal.
    """

    @property
    def answer_size(self) -> int: ...

    def sessions(self, count: int) -> list[Session]:
        """One function ``(t, q, v) -> u`` for each of ``count`` trajectories, each with a fresh memory."""
        ...


class Hosted:
    """The hosts of one run.

    Parameters
    ----------
    law : whose function represents a host. count : trajectories.
    """

    def __init__(self, law: BoundLaw, count: int) -> None:
        self.law, self.size = law, law.host.answer_size
        self.sessions: list[Session] = law.host.sessions(count)

    def answered(self, values: Mapping[str, Any]) -> np.ndarray:
        """The signal (*batch, m) with the answers of the hosts in it.

        Parameters
        ----------
        values : the arguments of the function by name, with batch axes where they have some; ``signal`` among them.
        """
        law = self.law
        seen = dict(zip(law.traced.outputs, law.kernel(*(values[name] for name in law.takes)), strict=True))
        lead = np.shape(values["q"])[:-1]
        t = np.broadcast_to(seen[SEEN[0]], lead).reshape(-1)
        q, v = (np.broadcast_to(seen[name], (*lead, seen[name].shape[-1])) for name in SEEN[1:])
        q, v = q.reshape(-1, q.shape[-1]), v.reshape(-1, v.shape[-1])
        answers = np.empty((len(t), self.size))
        for k, ask in enumerate(self.sessions):
            answers[k] = self._checked(ask(float(t[k]), q[k], v[k]), float(t[k]))
        m = law.signal_size
        signal = np.broadcast_to(values["signal"], (*lead, m)).copy()
        signal.reshape(-1, m)[:, : self.size] = answers
        return signal

    def _checked(self, answer: Any, t: float) -> np.ndarray:
        u = numbers(answer, f"the answer of {self.law.law!r} at t = {t:g} s")
        if u.shape != (self.size,):
            raise ShapeError(f"{self.law.law!r} must answer with ({self.size},) inputs, got {u.shape} at t = {t:g} s.")
        if not np.all(np.isfinite(u)):
            raise SimulationError(f"the answer of {self.law.law!r} is not finite at t = {t:g} s: {u}.")
        return u


def hosted(law: BoundLaw, count: int) -> Hosted | None:
    """The hosts of a run of ``count`` trajectories; None for a law that is native code as a whole."""
    return None if law.host is None else Hosted(law, count)

"""A law together with its reference: what a simulation calls.

The protocol of controllers: ``traced(model)`` gives a traced function whose inputs are some of t, q, v, signal, p, z and whose first
output is u; ``signal(times)`` gives the samples of the reference where it is not part of the function; ``state_size`` and
``initial_state()`` describe the controller's own state z, whose rate is the output z_rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from heavytop._arrays import Array, split, symbol
from heavytop.compile import Traced, trace_of
from heavytop.control.sampling import Resampling, check_sample_time
from heavytop.errors import ControlError
from heavytop.system.model import Model

if TYPE_CHECKING:
    from heavytop.control.law import FeedbackLaw
    from heavytop.control.reference import Reference


@runtime_checkable
class Controller(Protocol):
    """What a simulation needs to know of a controller."""

    signal_size: int
    state_size: int

    def traced(self, model: Model) -> Traced:
        """Inputs: some of t (), q (nq,), v (nv,), signal (m,), p (np,), z (s,). Outputs: u, then z_rate or z_next if s > 0."""
        ...

    def signal(self, times: Any) -> np.ndarray:
        """Samples (..., m)."""
        ...

    def initial_state(self) -> np.ndarray:
        """z at the start (s,)."""
        ...


class Tracking(Resampling):
    """A law that follows a reference. Made by ``law.with_reference(reference)``.

    A traceable reference becomes part of the function of time; any other is given as signal (q_R, v_R, a_R). Integral action takes
    the sample period of the simulation; with a ``sample_time`` it insists on that one.
    """

    def __init__(
        self,
        law: FeedbackLaw,
        reference: Reference,
        knows_parameters: bool = False,
        sample_time: float | None = None,
    ) -> None:
        check_sample_time(sample_time)
        for what in ("nq", "nv"):
            if getattr(reference.model, what) != getattr(law.model, what):
                raise ControlError(
                    f"the reference is made for {reference.model.name!r} with {what} = {getattr(reference.model, what)}, "
                    f"the law for {law.model.name!r} with {what} = {getattr(law.model, what)}. Make both for one model."
                )
        self.law, self.reference, self.knows_parameters, self.sample_time = (
            law,
            reference,
            knows_parameters,
            sample_time,
        )
        self.state_size = law.state_size
        self.signal_size = 0 if reference.traced is not None else law.model.nq + 2 * law.model.nv

    def __repr__(self) -> str:
        return f"Tracking({self.law!r})"

    @property
    def _has_rates(self) -> bool:
        return self.state_size > 0

    def initial_state(self) -> np.ndarray:
        """The integrals at the start."""
        return self.law.initial_state()

    def signal(self, times: Any) -> np.ndarray:
        """q_R, v_R, a_R side by side (..., nq + 2 nv), or nothing (..., 0) if the reference is part of the function."""
        if not self.signal_size:
            return np.zeros((*np.shape(times), 0))
        return self.reference.signal(times)

    def traced(self, model: Model) -> Traced:
        """The controller as traced function."""
        law = self.law.model
        self.check_plant(model)
        symbols: dict[str, Array] = {"q": symbol("q", law.nq), "v": symbol("v", law.nv)}
        if self.reference.traced is None:
            symbols["signal"] = symbol("signal", self.signal_size)
            desired = split(symbols["signal"], (law.nq, law.nv, law.nv))
        else:
            t = symbol("t")
            symbols = {"t": t, **symbols}
            desired = self.reference.traced.expressions(t)
        p: Array = law.parameter_vector()
        if self.knows_parameters and law.parameter_names:
            p = symbols["p"] = symbol("p", len(law.parameter_names))
        arguments = [symbols["q"], symbols["v"], *desired, p]
        if self.state_size:
            symbols["z"] = symbol("z", self.state_size)
            arguments.append(symbols["z"])
        traced = self.law.traced_law
        outputs = dict(zip(traced.outputs, traced.expressions(*arguments), strict=True))
        if self.state_size and self.sample_time is not None:
            outputs["z_next"] = symbols["z"] + self.sample_time * outputs.pop("z_rate")
        return trace_of("controller", symbols, outputs)

    def check_plant(self, model: Model) -> None:
        """Raise a ControlError unless the plant has the coordinates and inputs the law was made for."""
        own = self.law.model
        for what in ("nq", "nv", "nu"):
            if getattr(model, what) != getattr(own, what):
                raise ControlError(
                    f"the law was made for {own.name!r} with {what} = {getattr(own, what)}, the plant {model.name!r} has "
                    f"{getattr(model, what)}. Derive both from systems with the same joints and inputs."
                )
        if self.knows_parameters and model.parameter_names != own.parameter_names:
            raise ControlError(
                f"a law that knows the parameters needs the same ones: it has {own.parameter_names}, the plant {model.parameter_names}."
            )

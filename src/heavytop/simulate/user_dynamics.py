"""Dynamics from user-defined functions in NumPy notation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import (
    Array,
    as_array,
    concatenate,
    depends_on,
    directional,
    is_symbolic,
    jacobian,
    shape,
    sparse,
    symbol,
    transpose,
)
from heavytop.compile import Traced, on_symbols, trace_of
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError, ShapeError, unknown_name
from heavytop.simulate.dynamics import Dynamics
from heavytop.system import SparseLDL


class UserDynamics(Dynamics):
    """Any coordinates with an acceleration given by a function in NumPy notation.

    Parameters
    ----------
    coordinates : where the configuration lives.
    acceleration : ``fn(q, v)``, ``fn(q, v, u)`` with inputs, ``fn(q, v, u, p)`` with parameters; returns ``v'`` (nv,), or a
        mapping whose first entry it is and whose other entries are recorded as channels (multipliers, for example).
    inputs : names of the inputs.
    parameters : name -> default value; ``p`` maps names to symbols.
    kinetic, potential : ``fn(q, v)`` and ``fn(q)`` in J (with ``p`` appended if there are parameters), for energies and
        structure-preserving integrators.
    force : generalised force that is no gradient, same arguments as ``acceleration``; needed for energy balances when the
        system is not conservative.
    constraints : name -> ``g(q)``, one number or several that stay zero, in NumPy notation. They need ``kinetic``; the channel of this name has the
        multipliers, the generalised forces of which are ``(dg/dq A)^T`` times them.
    guards : functions that give for a step size an :class:`.Event` at which the equations end; a run that meets one has not gone well.
    name : name of the system.

    Examples
    --------
    A pendulum on the unit circle:

    >>> import heavytop as ht
    >>> swing = UserDynamics(ht.coordinates.Circle(), lambda q, v: ht.vector(-9.81 * q[1]), name="pendulum")
    >>> ht.simulate(swing, ([0.0, 1.0], [0.0]), until=1.0, step=0.01).q[-1].round(6)
    array([...
    """

    def __init__(
        self,
        coordinates: Coordinates,
        acceleration: Callable[..., Array | Mapping[str, Array]],
        *,
        inputs: Sequence[str] = (),
        parameters: Mapping[str, float] | None = None,
        kinetic: Callable[..., Array] | None = None,
        potential: Callable[..., Array] | None = None,
        force: Callable[..., Array] | None = None,
        constraints: Mapping[str, Callable[[Array], Array]] | None = None,
        guards: Sequence[Callable[[float], Any]] = (),
        name: str = "dynamics",
    ) -> None:
        if not isinstance(coordinates, Coordinates):
            got = type(coordinates).__name__
            raise ModelError(f"coordinates of {name!r} must be an object of heavytop.coordinates, got a {got}.")
        self.coordinates, self.name = coordinates, name
        self.u_names, self._defaults = tuple(inputs), dict(parameters or {})
        self.parameter_names = tuple(self._defaults)
        self._acceleration, self._kinetic, self._potential, self._force = acceleration, kinetic, potential, force
        self._constraints, self._guards = dict(constraints or {}), tuple(guards)
        if self._constraints and kinetic is None:
            raise ModelError(f"constraints of {name!r} act in the metric of its kinetic energy: give kinetic=.")

    @cached_property
    def _symbols(self) -> dict[str, Array]:
        sizes = {"q": self.nq, "v": self.nv, "u": self.nu, "p": len(self.parameter_names)}
        return {label: symbol(label, size) for label, size in sizes.items()}

    def _arguments(self, names: Sequence[str]) -> list[Any]:
        s = self._symbols
        values = [s[name] for name in names if name != "u" or self.nu]
        if self.parameter_names:
            values.append({name: s["p"][i] for i, name in enumerate(self.parameter_names)})
        return values

    def _make(self, name: str, inputs: Sequence[str], outputs: Mapping[str, Array]) -> Traced:
        return trace_of(name, {label: self._symbols[label] for label in (*inputs, "p")}, outputs)

    def _symbols_of_motion(self) -> dict[str, Array]:
        """What the user's function returns, the acceleration first and by this name."""
        result = self._acceleration(*self._arguments(("q", "v", "u")))
        outputs = dict(result) if isinstance(result, Mapping) else {"acceleration": result}
        first = next(iter(outputs))
        if shape(outputs[first]) != (self.nv,):
            raise ModelError(
                f"acceleration of {self.name!r} must return {self.nv} velocity rates, got an array of shape "
                f"{shape(outputs[first])}."
            )
        return {"acceleration": outputs.pop(first), **outputs}

    @cached_property
    def _mass(self) -> Array:
        """The mass matrix (nv, nv) of the kinetic energy."""
        v = self._symbols["v"]
        kinetic = np.reshape(_scalar(self._kinetic(*self._arguments(("q", "v")))), (1,))  # type: ignore[misc]
        return jacobian(jacobian(kinetic, v)[0, :], v)

    @cached_property
    def _held(self) -> UserConstraints | None:
        if not self._constraints:
            return None
        s = self._symbols
        functions = {
            name: on_symbols(lambda q, fn=fn: fn(*self._arguments(("q",))), f"constraint {name!r} of {self.name!r}")
            for name, fn in self._constraints.items()
        }
        return UserConstraints(self.coordinates, functions, s["q"], s["v"], self._mass)

    def _joint_velocity(self) -> Array:
        """Velocity along which the coordinates move."""
        return self._symbols["v"]

    def motion(self) -> Traced:
        values = {"joint_velocity": self._joint_velocity(), **self._symbols_of_motion()}
        if self._held is not None:
            lam = self._held.multipliers(values["acceleration"])
            values["acceleration"] = self._held.acceleration(values["acceleration"], lam)
            values |= self._held.by_name(lam)
        return self._make("motion", ("q", "v", "u"), {k: v + np.zeros(shape(v)) for k, v in values.items()})

    def energies(self) -> Traced | None:
        if self._kinetic is None:
            return None
        potential = self._potential(*self._arguments(("q",))) if self._potential is not None else 0.0
        kinetic = self._kinetic(*self._arguments(("q", "v")))
        return self._make("energies", ("q", "v"), {"kinetic": _scalar(kinetic), "potential": _scalar(potential)})

    def force(self) -> Traced | None:
        if self._force is None:
            return None
        return self._make("force", ("q", "v", "u"), {"force": self._force(*self._arguments(("q", "v", "u")))})

    def balance(self) -> Traced | None:
        """M (a - acceleration(q, v, u)) with the mass matrix of the kinetic energy."""
        if self._kinetic is None:
            return None
        v, a = self._symbols["v"], symbol("a", self.nv)
        value = np.matvec(self._mass, a - self._symbols_of_motion()["acceleration"])
        symbols = {"q": self._symbols["q"], "v": v, "a": a, "u": self._symbols["u"], "p": self._symbols["p"]}
        return trace_of("balance", symbols, {"balance": value})

    def rows(self) -> Traced | None:
        if self._held is None:
            return None
        outputs = {"Phi": self._held.Phi, "drift": np.zeros(shape(self._held.g)), "phi": self._held.g}
        return self._make("rows", ("q",), outputs)

    @property
    def holonomic_rows(self) -> np.ndarray:
        return np.ones(0 if self._held is None else shape(self._held.g)[0], dtype=bool)

    def projection(self) -> tuple[Traced, Traced] | None:
        if self._held is None:
            return None
        q, v = self._held.projected()
        s, projected, near = self._symbols, symbol("projected", self.nv), symbol("near")
        inputs = {"q": s["q"], "v": s["v"], "p": s["p"], "projected": projected, "near": near}
        # nothing is done twice near singular configurations
        again = trace_of("project near", inputs, {"v": projected})
        return self._make("project", ("q", "v"), {"q": q, "v": v, "near": np.zeros(())}), again

    def residual(self) -> Traced | None:
        if self._held is None:
            return None
        return self._make("residual", ("q", "v"), {"position": self._held.g, "velocity": self._held.velocity})

    def guards(self, step: float) -> tuple[Any, ...]:
        return tuple(guard(step) for guard in self._guards)

    def power(self) -> Traced | None:
        if self._force is None:
            return None
        power = np.vecdot(self._symbols["v"], self._force(*self._arguments(("q", "v", "u"))))
        return self._make("power", ("q", "v", "u"), {"input": power, "dissipated": np.zeros(())})

    def power_forces(self) -> Traced | None:
        if self._force is None:
            return None
        force = self._force(*self._arguments(("q", "v", "u")))
        others = dict.fromkeys(("input", "resisting", "weight"), np.zeros(self.nv))
        return self._make("power_forces", ("q", "v", "u"), others | {"supplied": force})

    @property
    def is_balanced(self) -> bool:
        """Without ``force`` it is not known whether the accelerations are those of the energies alone."""
        return self._kinetic is not None and self._force is not None

    def parameter_vector(self, parameters: Mapping[str, Any] | None = None) -> np.ndarray:
        given = dict(parameters or {})
        for name in given:
            if name not in self.parameter_names:
                raise unknown_name(f"parameter of {self.name!r}", name, self.parameter_names)
        columns = [np.asarray(given.get(name, value), dtype=float) for name, value in self._defaults.items()]
        if not columns:
            return np.zeros(0)
        values = np.stack(np.broadcast_arrays(*columns), axis=-1)
        if not np.all(np.isfinite(values)):
            raise ShapeError(f"parameters of {self.name!r} must be finite.")
        return values


class UserConstraints:
    """Equations g(q) = 0 at symbols q and v: multipliers, and the way back onto them.

    With ``Phi = dg/dq A``, the mass matrix M of the kinetic energy and the acceleration a0 without constraints (eq. 3.24)

        a = a0 + M^-1 Phi^T lam,        lam = -S^+ (Phi a0 + d/dt(Phi) v),        S = Phi M^-1 Phi^T.

    Parameters
    ----------
    functions : name -> g(q), called on symbols. mass : (nv, nv) expression.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        functions: Mapping[str, Callable[[Array], Array]],
        q: Array,
        v: Array,
        mass: Array,
    ) -> None:
        self.coordinates, self.q, self.v, self.mass = coordinates, q, v, mass
        self.values = {name: self._value(name, function) for name, function in functions.items()}

    def _value(self, name: str, function: Callable[[Array], Array]) -> Array:
        value = as_array(function(self.q))
        if len(shape(value)) > 1:
            raise ModelError(
                f"constraint {name!r} must return one number or several, got an array of shape {shape(value)}."
            )
        if not is_symbolic(value) or not depends_on(value, self.q):
            raise ModelError(
                f"constraint {name!r} does not depend on the configuration. Write it with q and NumPy functions."
            )
        return value

    @cached_property
    def g(self) -> Array:
        """All equations (m,)."""
        return concatenate(*(np.reshape(value, (-1,) if shape(value) else (1,)) for value in self.values.values()))

    @cached_property
    def Phi(self) -> Array:
        """(m, nv): the rate of g is Phi v."""
        return sparse(jacobian(self.g, self.q) @ self.coordinates.kinematics_matrix(self.q))

    @cached_property
    def velocity(self) -> Array:
        """Phi v (m,)."""
        return np.matvec(self.Phi, self.v)

    @cached_property
    def _released(self) -> Array:
        return sparse(SparseLDL(self.mass).solve(transpose(self.Phi)))

    @cached_property
    def _compliance(self) -> SparseLDL:
        return SparseLDL(self.Phi @ self._released, list(range(shape(self.g)[0])))

    def multipliers(self, free: Array) -> Array:
        """lam (m,) for the acceleration ``free`` (nv,) without constraints."""
        bias = directional(self.velocity, self.q, self.coordinates.rate(self.q, self.v))
        return -self._compliance.solve(np.matvec(self.Phi, free) + bias)

    def acceleration(self, free: Array, lam: Array) -> Array:
        """a0 + M^-1 Phi^T lam (nv,)."""
        return free + np.matvec(self._released, lam)

    def by_name(self, lam: Array) -> dict[str, Array]:
        """The multipliers in the shapes of the equations."""
        result, start = {}, 0
        for name, value in self.values.items():
            size = shape(value)[0] if shape(value) else 1
            result[name] = lam[start : start + size] if shape(value) else lam[start]
            start += size
        return result

    def projected(self) -> tuple[Array, Array]:
        """q one Newton step nearer to g = 0, and v with Phi v = 0, both least in the metric of M."""
        back = np.matvec(self._released, self._compliance.solve(self.g))
        slower = np.matvec(self._released, self._compliance.solve(self.velocity))
        return self.coordinates.retract(self.q, -back), self.v - slower


def _scalar(value: Array) -> Array:
    return np.reshape(value, ()) if is_symbolic(value) else np.asarray(value, dtype=float).reshape(())

"""An implicit method whose discrete force is a discrete gradient: the energy is exact to the tolerance of its solution.

From (q0, v0) to (q1, v1), with the mean velocity ``v_m = (v0 + v1) / 2`` and the configuration ``q_m`` half way:

    M (v1 - v0) = h f(q_m, v_m) + Phi_m^T lam - s M v_m / |v_m|,     E(q1, v1) - E0 = h P(q_m, v_m) - b_m . lam,
    M (d - v_m) = Phi_m^T kappa,     q1 = q0 o cay(h d),     phi(q1) = 0,     Phi(q1) v1 + b(q1) = 0.

Without constraints and without s this is the implicit midpoint rule. The term with s is the correction of the discrete gradient (Gonzalez
1996, in the metric M): it acts along the displacement and makes the work of the discrete force equal to the change of energy, so that
only the power P of inputs and dissipation, and of constraints that move (drift b), changes it. The discrete multipliers lam hold the
velocity at the end of the step, kappa holds its configuration (Gear, Gupta and Leimkuhler 1985). s and kappa are of order h^2 and
the method is symmetric: order 2. All equations are solved together by Newton's method with their exact Jacobian.

Rotations move by the Cayley map, ``cay(x) = exp(2 arctan(|x| / 2) x / |x|)``: then ``R1 L1 = R0 L0`` for a body under no force, as
``L1 - L0 = h L_m x w_m``, and in the same way ``R1 p1 = R0 p0``. The mass centre of a pose with velocities in body axes moves by
``h (v + h w x v / 2)``, v its mean velocity, which is ``h R0 v0`` there: a free body keeps energy, linear momentum and angular momentum, and
the path of its mass centre is exact, wherever the origin of its frame is. Where a potential acts, s changes the momenta by terms of order
h^2; so does the mass matrix of a tree of bodies, which changes with the joints while it is taken half way here.

For quaternions the Cayley map is the midpoint rule ``A1 - A0 = h/2 A_m (0, w_m)``, which keeps ``|A|``: the energy-consistent integrator
of the DAE of document 001. Coordinates that are no group take the midpoint rule in q itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from heavytop._arrays import (
    Array,
    as_array,
    concatenate,
    depends_on,
    from_columns,
    is_symbolic,
    jacobian,
    matrix,
    part,
    scale,
    shape,
    substitute,
    symbol,
    to_sx,
    transpose,
    vector,
)
from heavytop.compile import Shape, Traced, trace_of
from heavytop.coordinates import Attitude, Coordinates, EulerAngles, LinearVelocities, Pose, Product
from heavytop.errors import SimulationError
from heavytop.geometry import se3, series, so3
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.integrators.base import SLOW, Integrator, relative_size
from heavytop.simulate.integrators.newton import newton_correction, row_lifts
from heavytop.simulate.plant import Plant, PlantState

REST = 1e-14
"""Fraction of the energy below which the kinetic energy of the mean velocity counts as none: nothing to correct along."""
ROUNDING = 1e-15
"""Relative rounding of an energy, which the correction s cannot resolve."""
CANCELLED = 1e-14
"""The same of one whose terms cancel, relative to these."""
STALLED = 1e-9
"""Corrections below this that no longer shrink are rounding: the equations are solved as well as they can be."""


class EnergyMomentum(Integrator):
    """Order 2, exact energy; for long runs of conservative systems, also with loops, velocity constraints, inputs and damping.

    Each step solves its equations by Newton's method with the exact Jacobian. A law that is evaluated continuously is no part of the
    Jacobian: its input follows from iteration to iteration.

    Parameters
    ----------
    tolerance : largest last correction of the velocities, relative to them, of a step that counts as solved.
    iterations : most corrections in a step. A step that needs more ends the trajectory: the outcome names it and the cause.

    The record ``residual`` has the largest last correction so far.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> run = ht.simulate(model, ([2.0], [0.0]), until=10.0, step=0.01, integrator=EnergyMomentum())
    >>> run.invariants["energy"].relative < 1e-14
    True
    """

    name = "energy_momentum"
    order = 2
    records = ("residual", "unsolved")
    enforces_constraints = True
    integrates_work = True
    stationary = (("improve", "x"),)

    def __init__(self, tolerance: float = 1e-12, iterations: int = 20) -> None:
        if not isinstance(tolerance, float) or not 0 < tolerance < 1:
            raise SimulationError(f"tolerance of EnergyMomentum must be a number between 0 and 1, got {tolerance!r}.")
        if not isinstance(iterations, int) or iterations < 2:
            raise SimulationError(f"EnergyMomentum needs at least 2 iterations, a whole number, got {iterations!r}.")
        self.tolerance, self.iterations = tolerance, iterations

    def __repr__(self) -> str:
        return f"EnergyMomentum(tolerance={self.tolerance!r}, iterations={self.iterations})"

    def carries(self, plant: Plant) -> Mapping[str, Shape]:
        return {"energy": (), "most": (), "change": (plant.nv,), "residual": (), "steps": (), "unsolved": ()}

    def start(self, problem: Any) -> Mapping[str, Array]:
        """The energy of the start is the reference for the whole run, so that rounding does not add up."""
        kinetic, potential = problem.dynamics.kernel("energies")(problem.q, problem.v, problem.p)
        return {"energy": kinetic + potential}

    def initial(self, dynamics: Dynamics) -> Traced | None:
        energies = dynamics.energies()
        if energies is None:
            return None
        symbols = {name: symbol(name, *size) for name, size in energies.inputs.items()}
        kinetic, potential = energies.expressions(*symbols.values())
        return trace_of("energy", symbols, {"energy": kinetic + potential})

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        f = plant.dynamics.functions.get(_Equations, lambda: _Equations(plant.dynamics))
        begin = (state.q, state.v, h, plant.p_at(0.0))
        follows = plant.control.kind == "continuous"
        memory = plant.memory if plant.memory in plant.flats else None

        def middle(x: Array, z: Sequence[Array]) -> tuple[Array, list[Array]]:
            """The input half way, and the memory of the law there."""
            if not follows:
                return plant.input_at(state, 0.5)[0], []
            q_m, v_m = plant.call(f.middle, *begin, x)
            u, z_rate = plant.input_at(state.replaced(q=q_m, v=v_m, memory=z[0] if z else None), 0.5)
            return u, [] if memory is None else [state.of(memory) + 0.5 * h * z_rate]

        def iterate(done: Array, x: Array, size: Array, *z: Array) -> Sequence[Array]:
            u, z_new = middle(x, z)
            x_new, size_new = plant.call(f.improve, *begin, x, u, state.own["energy"], state.own["most"])
            if z_new:
                size_new = np.maximum(size_new, relative_size(z_new[0] - z[0], z_new[0], 1.0))
            stalled = np.where(size_new <= STALLED, np.where(4 * size_new >= size, 1.0, 0.0), 0.0)
            over = np.where(size_new <= self.tolerance, 1.0, stalled)
            kept = [np.where(done, old, new) for old, new in zip((x, size, *z), (x_new, size_new, *z_new), strict=True)]
            return np.where(done, done, over), *kept

        (guess,) = plant.call(f.guess, *begin, state.own["change"])
        z0 = [] if memory is None else [state.of(memory)]
        # rounds of other trajectories change neither a solved step nor its results
        done, x, size, *z = plant.repeat(self.iterations, iterate, as_array(0.0), guess, as_array(1.0), *z0, ends=True)
        u, z_half = middle(x, z)
        ended = plant.call(f.finish, *begin, x, u, state.own["energy"], state.own["most"])
        q, v, energy, most, change, powers, rounding = ended
        end = state.replaced(q=q, v=v)
        if plant.work is not None:
            end = end.replaced(work=state.of(plant.work) + h * powers)
        if plant.flow is not None:
            end = end.replaced(flow=state.of(plant.flow) + h * powers)
        if memory is not None:
            end = end.replaced(memory=2 * z_half[0] - state.of(memory))
        if not follows:
            done = np.where(size <= rounding, 1.0, done)
        steps = state.own["steps"] + 1
        before = state.own["unsolved"]
        return end.keeping(
            energy=energy,
            most=most,
            change=change,
            residual=np.maximum(state.own["residual"], size),
            steps=steps,
            unsolved=np.where(before, before, np.where(done, 0.0, steps)),
        )


class _Equations:
    """The equations of a step as traced functions, from the force balance, the energies and the constraints of the dynamics.

    The unknowns x are, in this order: q_m if it cannot be written down, v1, d where there are constraints of positions, lam, kappa, s.
    """

    def __init__(self, dynamics: Dynamics) -> None:
        energies, balance = dynamics.energies(), dynamics.balance()
        if energies is None or balance is None:
            raise SimulationError(
                f"EnergyMomentum needs the energy of {dynamics.name!r}: give kinetic= and potential= to the dynamics."
            )
        self.energies, self.balance, self.dynamics = energies, balance, dynamics
        self.c, self.nq, self.nv, self.nu = dynamics.coordinates, dynamics.nq, dynamics.nv, dynamics.nu
        self.power, self.rows, self.velocity = dynamics.power(), dynamics.rows(), dynamics.joint_velocity()
        self.rows_count = self.rows.outputs["Phi"][0] if self.rows is not None else 0
        self.held = [i for i, yes in enumerate(dynamics.holonomic_rows) if yes] if self.rows is not None else []
        self.s = {"q": symbol("q", self.nq), "v": symbol("v", self.nv), "h": symbol("h")}
        self.s["p"] = symbol("p", len(dynamics.parameter_names))
        self.u, self.energy, self.change = symbol("u", self.nu), symbol("energy"), symbol("change", self.nv)
        self.most = symbol("most")
        self.is_implicit = self.velocity is not None or not self.c.is_group
        sizes = {
            "q_m": self.nq if self.is_implicit else 0,
            "v": self.nv,
            "d": self.nv if self.held else 0,
            "lam": self.rows_count,
            "kappa": len(self.held),
            "s": 1,
        }
        stops = np.cumsum([0, *sizes.values()])
        self.at = {name: (int(a), int(b)) for name, (a, b) in zip(sizes, pairwise(stops), strict=True)}
        self.x = symbol("x", int(stops[-1]))
        at_rest = self._energy_at(self.s["q"], np.zeros(self.nv), self.s["p"])[0]
        # a basis with drift: the energy at v = 0 belongs to the driver, so no energy is conserved
        self.is_quadratic = not is_symbolic(at_rest) or to_sx(at_rest).is_zero()
        if dynamics.has_time and not self.is_quadratic:
            raise SimulationError(
                f"EnergyMomentum holds the energy of {dynamics.name!r} along its velocities, but frames that the time moves have kinetic energy "
                "without them, which their drivers bring in. Use integrator='rkmk4' or 'rkmk8'; constraints and potentials may depend on the time."
            )

    def _unknown(self, name: str) -> Array:
        return part(self.x, *self.at[name])

    def _p_at(self, c: float) -> Array:
        """The parameters, with the time ``c`` of the step after its start if it is among them."""
        p = self.s["p"]
        if not self.dynamics.has_time:
            return p
        return concatenate(part(p, 0, shape(p)[0] - 1), np.reshape(p[shape(p)[0] - 1] + c * self.s["h"], (1,)))

    def _mass_matrix(self, q: Array) -> Array:
        """M (nv, nv) at the midpoint as the derivative of the momentum with respect to v."""
        v = symbol("v_any", self.nv)
        return jacobian(self._slope(q, v), v)

    def _energy_at(self, q: Array, v: Array, p: Array) -> tuple[Array, Array]:
        kinetic, potential = self.energies.expressions(q, v, p)
        return np.reshape(kinetic, ()), np.reshape(potential, ())

    def _slope(self, q: Array, v: Array) -> Array:
        """dT/dv (nv,) half way."""
        moving = symbol("v_moving", self.nv)
        kinetic = np.reshape(self.energies.expressions(q, moving, self._p_at(0.5))[0], (1,))
        return substitute(jacobian(kinetic, moving)[0, :], moving, v)

    @cached_property
    def _way(self) -> tuple[Array, Array, Array, Array]:
        """q_m, v_m, q1 and what remains of the equation of q_m."""
        s, v_m = self.s, 0.5 * (self.s["v"] + self._unknown("v"))
        d = self._unknown("d") if self.held else v_m
        if not self.is_implicit:
            turn = cayley(self.c, s["h"] * d, self._constant_mass)
            return self.c.retract(s["q"], 0.5 * turn), v_m, self.c.retract(s["q"], turn), np.zeros(0)
        q_m = self._unknown("q_m")
        w = d if self.velocity is None else self.velocity.expressions(q_m, d, self._p_at(0.5))[0]
        half, end = displace(self.c, s["q"], q_m, s["h"] * w)
        return q_m, v_m, end, q_m - half

    @cached_property
    def _constant_mass(self) -> Array | None:
        """M, with zeros where it depends on q."""
        q = symbol("q_any", self.nq)
        mass = self._mass_matrix(q)
        entries = [[mass[i, j] for j in range(self.nv)] for i in range(self.nv)]
        return matrix([[0.0 if depends_on(e, q) else e for e in row] for row in entries])

    @cached_property
    def middle(self) -> Traced:
        """(q, v, h, p, x) -> configuration and velocity half way."""
        q_m, v_m, *_ = self._way
        return trace_of("middle", {**self.s, "x": self.x}, {"q_m": q_m, "v_m": v_m})

    @cached_property
    def guess(self) -> Traced:
        """(q, v, h, p, change) -> x: the velocity goes on changing as it did in the last step."""
        v = self.s["v"] + self.change
        parts = [
            *([self.s["q"]] if self.is_implicit else []),
            v,
            *([self.s["v"] + 0.5 * self.change] if self.held else []),
        ]
        rest = np.zeros(self.rows_count + len(self.held) + 1)
        return trace_of("guess", {**self.s, "change": self.change}, {"x": concatenate(*parts, rest)})

    @cached_property
    def _powers(self) -> Array:
        """Power (2,) given by inputs, and lost; with drivers (3,), theirs last."""
        q_m, v_m, *_ = self._way
        p = self._p_at(0.5)
        given, lost, *driven = (0.0, 0.0) if self.power is None else self.power.expressions(q_m, v_m, self.u, p)
        if driven and self.is_quadratic:
            # the rest of what the discrete forces do along v_m: drivers also move the points at which inputs and dampers act
            force = self.dynamics.force()
            along = 0.0 if force is None else np.vecdot(v_m, force.expressions(q_m, v_m, self.u, p)[0])
            driven = [along - given + lost + self._explicit_work / self.s["h"]]
            if self.rows is not None:
                # -b . lam, with the b that the step itself has: it vanishes with v_m as the work of all other forces does
                Phi, drift, _ = self.rows.expressions(q_m, p)
                lam = self._unknown("lam")
                moved = [
                    lam[i] * np.vecdot(Phi[i, :], v_m) for i in range(self.rows_count) if not to_sx(drift[i]).is_zero()
                ]
                driven = [driven[0] + sum(moved) / self.s["h"]]
        return vector(given, lost, *driven) if is_symbolic(given, lost, *driven) else np.zeros(2 + len(driven))

    @cached_property
    def _explicit_work(self) -> Array:
        """What the energy changes by in a step because time passes, at a fixed state: mean of both ends.

        The rest, ``mean over t of E(q1, v1, t) - E(q0, v0, t)``, vanishes with the displacement, as a discrete gradient must: its quotient by
        the speed is bounded where the motion comes to rest.
        """
        if not self.dynamics.has_time:
            return as_array(0.0)
        ends = (self.s["q"], self.s["v"]), (self._way[2], self._unknown("v"))
        late, early = ([sum(self._energy_at(q, v, self._p_at(c))) for q, v in ends] for c in (1.0, 0.0))
        return 0.5 * (late[0] - early[0] + late[1] - early[1])

    @property
    def _work_rate(self) -> Array:
        """All power that the energy grows by."""
        given, lost, *driven = (self._powers[k] for k in range(shape(self._powers)[0]))
        return sum(driven, given - lost)

    @cached_property
    def improve(self) -> Traced:
        """(q, v, h, p, x, u, energy, most) -> (x, relative size of the correction beyond what rounding of the energy makes of it)."""
        s = self.s
        q_m, v_m, q_1, missed_q = self._way
        v_1, h = self._unknown("v"), s["h"]
        mass, momentum = self._mass_matrix(q_m), self._slope(q_m, v_m)
        balance = self.balance.expressions(q_m, v_m, (v_1 - s["v"]) / h, self.u, self._p_at(0.5))[0]
        # s acts along v_m; where that is nearly zero there is nothing to correct and s is zero
        twice = np.vecdot(v_m, momentum)
        kinetic, potential = self._energy_at(q_1, v_1, self._p_at(1.0))
        size = self._magnitude
        moving = twice > REST * size if self.is_quadratic else as_array(False)
        speed = np.sqrt(np.where(moving, twice, 1.0))
        along = self._unknown("s")[0]
        force = h * balance + scale(np.where(moving, along / speed, 0.0), momentum, 1)
        missed_energy = kinetic + potential - self.energy - h * self._work_rate
        equations, lifts = [missed_q], {}
        held: list[Array] = []
        if self.rows is not None:
            Phi_m = self.rows.expressions(q_m, self._p_at(0.5))[0]
            Phi, drift, phi = self.rows.expressions(q_1, self._p_at(1.0))
            lam, kappa = self._unknown("lam"), self._unknown("kappa")
            force = force - np.matvec(transpose(Phi_m), lam)
            lift = row_lifts(Phi_m, mass, self.dynamics.row_groups)
            lifts = {self.at["lam"][0] + i: lift[i] for i in range(self.rows_count)}
            held = [np.matvec(Phi, v_1) + drift]
            if self.held:
                chosen = from_columns(*(Phi_m[i, :] for i in self.held))
                equations.append(force)
                force = np.matvec(mass, self._unknown("d") - v_m) - np.matvec(chosen, kappa)
                held.append(vector(*(phi[i] for i in self.held)) / h)
                lifts |= {self.at["kappa"][0] + k: lift[i] for k, i in enumerate(self.held)}
        last = np.where(moving, missed_energy / speed, along)
        residual = concatenate(*(e for e in (*equations, force, *held, np.reshape(last, (1,))) if shape(e) != (0,)))
        step = newton_correction(residual, self.x, lifts, self.at["lam"][0])
        change = relative_size(part(step, *self.at["v"]), v_1, SLOW)
        if self.held:
            change = np.maximum(change, relative_size(part(step, *self.at["d"]), v_1, SLOW))
        noise = np.where(moving, ROUNDING * size / (speed * speed), 0.0) * relative_size(v_m, v_1, SLOW)
        inputs = {**s, "x": self.x, "u": self.u, "energy": self.energy, "most": self.most}
        return trace_of("improve", inputs, {"x": self.x + step, "size": np.maximum(change - noise, 0.0)})

    @cached_property
    def _magnitude(self) -> Array:
        """The largest sum of the magnitudes of the energies up to the end of the step: the energy to hold has its rounding."""
        kinetic, potential = self._energy_at(self._way[2], self._unknown("v"), self._p_at(1.0))
        return np.maximum(self.most, np.abs(kinetic) + np.abs(potential))

    @cached_property
    def _rounding(self) -> Array:
        """Relative correction of the velocities that rounding of the energies explains.

        Energies whose terms cancel, as that of a spring near its rest length, round as lengths do: times the forces f, which are M (v1 - v0) / h.
        """
        s, v_1, (q_m, v_m, *_) = self.s, self._unknown("v"), self._way
        sizes = self.dynamics.sizes()
        lengths = np.ones(self.nv) if sizes is None else sizes.expressions(q_m, self._p_at(0.5))[0]
        forces = np.abs(self._slope(q_m, v_1 - s["v"])) / s["h"]
        size = self._magnitude + np.vecdot(forces, lengths)
        twice = np.vecdot(v_m, self._slope(q_m, v_m))
        moving = twice > REST * size
        return np.where(moving, CANCELLED * size / np.where(moving, twice, 1.0), 1.0) * relative_size(v_m, v_1, SLOW)

    @cached_property
    def finish(self) -> Traced:
        """(q, v, h, p, x, u, energy, most) -> (q1, v1, the energy to hold, which moves on by the work done, most, v1 - v0, powers, rounding)."""
        *_, q_1, _ = self._way
        v_1 = self._unknown("v")
        energy = self.energy + self.s["h"] * self._work_rate
        outputs = {"q": q_1, "v": v_1, "energy": energy, "most_next": self._magnitude}
        outputs |= {"change": v_1 - self.s["v"], "powers": self._powers, "rounding": self._rounding}
        inputs = {**self.s, "x": self.x, "u": self.u, "energy_0": self.energy, "most": self.most}
        return trace_of("finish", inputs, outputs)


def displace(coordinates: Coordinates, q0: Array, q_m: Array, delta: Array) -> tuple[Array, Array]:
    """The configurations half way and at the end of the displacement ``delta = h w_m``.

    Only coordinates that are no group need the middle ``q_m``.
    """
    if coordinates.is_group:
        turn = cayley(coordinates, delta)
        return coordinates.retract(q0, 0.5 * turn), coordinates.retract(q0, turn)
    if isinstance(coordinates, Product):
        sizes = list(zip(coordinates.blocks, coordinates.split_q(q0), coordinates.split_q(q_m), strict=True))
        parts = [displace(block, a, b, d) for (block, a, b), d in zip(sizes, coordinates.split_v(delta), strict=True)]
        return concatenate(*(m for m, _ in parts)), concatenate(*(e for _, e in parts))
    moved = coordinates.rate(q_m, delta)
    return q0 + 0.5 * moved, q0 + moved


def cayley(coordinates: Coordinates, delta: Array, mass: Array | None = None) -> Array:
    """The argument for which exp gives the displacement of ``delta``: every rotation by the Cayley map.

    A rotation vector x becomes 2 arctan(|x| / 2) x / |x|. The mass centre c of a twist (v, w) in body axes moves by ``x + w x x / 2`` with
    ``x = v + w x c``; c is found in the ``mass`` matrix (nv, nv) if it is there, else it is the origin.
    """
    if isinstance(coordinates, Product):
        stops = np.cumsum([0, *(block.nv for block in coordinates.blocks)])
        own = [None if mass is None else mass[a:b, a:b] for a, b in pairwise(stops)]
        parts = zip(coordinates.blocks, coordinates.split_v(delta), own, strict=True)
        return concatenate(*(cayley(block, d, m) for block, d, m in parts))
    if isinstance(coordinates, LinearVelocities):
        d = coordinates.matrix
        turned = cayley(
            coordinates.base, np.matvec(coordinates.inverse_matrix, delta), None if mass is None else d.T @ mass @ d
        )
        return np.matvec(d, turned)
    if isinstance(coordinates, Attitude) and not (
        isinstance(coordinates, EulerAngles) and coordinates.velocity == "rates"
    ):
        return _shorten(delta)
    if isinstance(coordinates, Pose) and coordinates.velocity == "mixed":
        return concatenate(part(delta, 0, 3), _shorten(part(delta, 3, 6)))
    if isinstance(coordinates, Pose):
        linear, angular = part(delta, 0, 3), part(delta, 3, 6)
        turn = _shorten(angular)
        center = np.zeros(3) if mass is None else _mass_center(mass)
        carried = linear + np.cross(angular, center)
        moved = carried + 0.5 * np.cross(angular, carried)
        # less what the mass centre moves by because the body turns, (cay(w) - 1) c
        moved = moved - (np.matvec(so3.exp(turn), center) - center)
        return concatenate(se3.displacement_inverse(moved, turn), turn)
    return delta


def _mass_center(mass: Array) -> Array:
    """c (3,) from the mass matrix [[m, -m wed(c)], [m wed(c), ...]] of a body in body axes; zero without mass."""
    total = mass[0, 0]
    inverse = np.where(total > 0, 1 / np.where(total > 0, total, 1.0), 0.0)
    return vector(mass[1, 5], mass[2, 3], mass[0, 4]) * inverse


def _shorten(x: Array) -> Array:
    return scale(series.arctangent(0.25 * np.vecdot(x, x), 1.0), x, 1)

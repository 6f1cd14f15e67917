"""Forces, gaps and points of contacts along a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Flags, Floats
from heavytop.errors import SimulationError
from heavytop.system import HELD, POINT, dependent_rows

if TYPE_CHECKING:
    from heavytop.simulate.run import Run

SAMPLES = 32
"""Records, at most, at which it is tested whether forces are unique."""
STICKS = 0.999
"""Share of the cone within which a contact sticks."""


TOUCHES = 1e-6
"""Gap in m at the start up to which a contact that acts in the first step is closed from the start."""


@dataclass(frozen=True, eq=False)
class ContactRecord:
    """One contact along a run; k points of its shape.

    Attributes
    ----------
    name : name of the contact.
    t : (n,) times of the records in s.
    forces : (n, *batch, k, 3) N on the body at each point, world axes: the impulse of the step that ends there divided by its size.
    gaps : (n, *batch, k) m. points : (n, *batch, k, 3) m, world axes.
    use : (n, *batch) largest share |T| / (mu N) of Coulomb's cone among its points; 0 where open or smooth.
    unique : whether its forces follow from the motion; False: other forces at its points have the same effect, and these are the most even ones.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="ball")
    >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(1, 1, 1)))
    >>> system.ground(friction=0.5)
    >>> system.contact("ball", "ground", ht.Sphere(0.1))
    >>> model = system.derive()
    >>> q = model.neutral()
    >>> q[2] = 0.1
    >>> run = ht.simulate(model, (q, np.zeros(6)), until=0.1, step=0.01, integrator="moreau")
    >>> run.contacts["ball"].force[-1].round(6) + 0.0, run.contacts["ball"].unique
    (array([ 0.  ,  0.  , 19.62]), True)
    """

    name: str
    t: Floats
    forces: Floats
    gaps: Floats
    points: Floats
    use: Floats
    unique: bool

    def __repr__(self) -> str:
        return f"ContactRecord({self.name!r}, {len(self.t)} records, {self.gaps.shape[-1]} points)"

    @property
    def force(self) -> Floats:
        """Total force (n, *batch, 3) in N on the body, world axes."""
        return self.forces.sum(axis=-2)

    @property
    def gap(self) -> Floats:
        """Smallest gap (n, *batch) in m."""
        return self.gaps.min(axis=-1)

    @property
    def point(self) -> Floats:
        """Centre of the forces (n, *batch, 3) in m, weighted by their size; the lowest point where it is open."""
        size = np.linalg.norm(self.forces, axis=-1)
        lowest = self.gaps == self.gaps.min(axis=-1, keepdims=True)
        weight = np.where(self.closed[..., None], size, lowest)
        return (weight[..., None] * self.points).sum(axis=-2) / weight.sum(axis=-1)[..., None]

    @property
    def closed(self) -> Flags:
        """Whether a force acts (n, *batch)."""
        return np.any(self.forces != 0.0, axis=(-1, -2))

    @property
    def touchdowns(self) -> Floats:
        """Times of the records of one trajectory at which it closes, s."""
        return self._switches(1)

    @property
    def liftoffs(self) -> Floats:
        """Times of the records of one trajectory at which it opens, s."""
        return self._switches(-1)

    def _switches(self, sign: int) -> Floats:
        if self.closed.ndim > 1:
            raise SimulationError(
                f"contact {self.name!r} was recorded for a batch, whose trajectories close and open at different times: use closed, (n, *batch)."
            )
        closed = self.closed.astype(int)
        if (
            len(closed) > 1 and self.gap[0] <= TOUCHES
        ):  # no step ends at the start, so that no rigid force is known there
            closed[0] = closed[1]
        return self.t[1:][np.diff(closed) == sign]


@dataclass(frozen=True, eq=False)
class JointReaction:
    """Force of a hard stop or of sticking friction in a joint along a run.

    Attributes
    ----------
    name : "joint limit" or "joint friction", with the name of the joint.
    t : (n,) times of the records in s.
    force : (n, *batch, k) N or N m: of the lower and the upper end, pushing inwards, or against each velocity of the joint.

    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("lift", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    >>> system.limit("lift", 0.0, 1.0, hard=True)
    >>> run = ht.simulate(system.derive(), ([0.0], [0.0]), until=0.1, step=0.01, integrator="moreau")
    >>> run.contacts["lift limit"].force[-1].round(6)
    array([19.62,  0.  ])
    """

    name: str
    t: Floats
    force: Floats

    def __repr__(self) -> str:
        return f"JointReaction({self.name!r}, {len(self.t)} records)"


def contacts_of(run: Run) -> dict[str, ContactRecord | JointReaction]:
    """All contacts, ropes, stops and sticking frictions of a run by name."""
    return _rigid(run) | _compliant(run)


def _compliant(run: Run) -> dict[str, ContactRecord]:
    """Compliant contacts: their forces follow from the state."""
    kernel = None if run.dynamics is None else run.dynamics.kernel("compliant_contacts")
    if run.dynamics is None or kernel is None:
        return {}
    found = kernel(run.q, run.v, run.parameters_at_records)
    return {
        name: ContactRecord(name, run.t, x[..., :3], x[..., 6], x[..., 3:6], np.max(x[..., 7], axis=-1), True)
        for name, x in zip(kernel.signature.outputs, found, strict=True)
    }


def _rigid(run: Run) -> dict[str, ContactRecord | JointReaction]:
    """Rigid contacts, ropes, stops and sticking frictions: their forces are those of the steps."""
    dynamics = run.dynamics
    rows = None if dynamics is None else dynamics.contact_rows()
    if dynamics is None or rows is None or "impulse" not in run.channels:
        return {}
    p = run.parameters_at_records
    kernel, friction = dynamics.kernel("contact_points"), dynamics.kernel("contact_coefficients")
    assert kernel is not None
    assert friction is not None
    gap, point, axes = kernel(run.q, p)
    (mu,) = friction(run.q, p)
    impulse = run.channels["impulse"] / run.settings.step
    units = rows.units[: len(rows.points)]
    forces, uses = [], []
    for k, unit in enumerate(units):
        own = impulse[..., unit.first : unit.first + unit.size]
        three = axes[..., k, :].reshape(*axes.shape[:-2], 3, 3)[..., : unit.size, :]
        forces.append((own[..., None] * three).sum(axis=-2))
        most = mu[..., k] * own[..., 0]
        pressed = most > 0.0
        tangential = np.linalg.norm(own[..., 1:], axis=-1)
        uses.append(np.where(pressed, tangential / np.where(pressed, most, 1.0), 0.0))
    free = _ambiguous(run, np.stack(uses, axis=-1) if uses else np.zeros((*gap.shape[:-1], 0)))
    found: dict[str, ContactRecord | JointReaction] = {}
    for name in dict.fromkeys(unit.name for unit in units):
        at = [k for k, unit in enumerate(units) if unit.name == name]
        found[name] = ContactRecord(
            name,
            run.t,
            np.stack([forces[k] for k in at], axis=-2),
            gap[..., at],
            point[..., at, :],
            np.max(np.stack([uses[k] for k in at], axis=-1), axis=-1),
            name not in free,
        )
    rest = [unit for unit in rows.units[len(units) :] if unit.kind != HELD]
    for name in dict.fromkeys(unit.name for unit in rest):
        found[name] = JointReaction(name, run.t, impulse[..., [unit.first for unit in rest if unit.name == name]])
    return found


def _ambiguous(run: Run, use: Floats) -> set[str]:
    """Names of contacts whose forces are not unique at some of the records.

    The forces lam of closed points, in their normal row and two tangents where they stick, are unique if no change of them has J^T lam = 0. Where a
    point slips its friction follows from the normal force.
    """
    dynamics = run.dynamics
    rows = None if dynamics is None else dynamics.contact_rows()
    kernel = None if dynamics is None else dynamics.kernel("contact_jacobian")
    if rows is None or kernel is None:
        return set()
    impulse = run.channels["impulse"].reshape(-1, run.channels["impulse"].shape[-1])
    q = run.q.reshape(-1, run.q.shape[-1])
    share = use.reshape(len(q), -1)
    chosen = np.unique(np.linspace(0, len(q) - 1, SAMPLES).astype(int))
    p = np.broadcast_to(run.parameters_at_records, (*run.q.shape[:-1], run.parameters_at_records.shape[-1]))
    (J,) = kernel(q[chosen], p.reshape(len(q), -1)[chosen])
    found: set[str] = set()
    for place, matrix in zip(chosen, J, strict=True):
        if not np.all(np.isfinite(impulse[place])):
            continue
        columns, owners = [], []
        for k, unit in enumerate(rows.units):
            own = impulse[place, unit.first : unit.first + unit.size]
            if unit.kind == POINT and own[0] <= 0.0:
                continue
            part = matrix[unit.first : unit.first + unit.size]
            if unit.kind == POINT and unit.size == 3 and share[place, k] >= STICKS:
                part = (own @ part)[None] / own[0]
            columns.append(part)
            owners += [unit.name] * len(part)
        if not columns:
            continue
        loose = dependent_rows(np.concatenate(columns))
        found |= {name for name, is_loose in zip(owners, loose, strict=True) if is_loose}
    return found


def summary(every: Mapping[str, ContactRecord | JointReaction]) -> str:
    """Closed contacts, depth and use of the cone at the end or over the run, as text."""
    contacts = {name: record for name, record in every.items() if isinstance(record, ContactRecord)}
    if not contacts:
        return f"{len(every)} stops or frictions of joints"
    closed = sum(bool(np.any(c.closed[-1])) for c in contacts.values())
    depth = max(0.0, *(float(-np.nanmin(c.gaps)) for c in contacts.values()))
    use = max(float(np.nanmax(c.use)) for c in contacts.values())
    even = "" if all(c.unique for c in contacts.values()) else ", forces not unique: the most even ones"
    return f"{closed} of {len(contacts)} closed at the end, largest depth {depth:.1e} m, largest use of the cone {use:.3g}{even}"

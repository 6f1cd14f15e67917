"""Joint limits as events: a run ends, or notes it, where a joint leaves its range or exceeds its speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from heavytop._arrays import Array
from heavytop.errors import ModelError, unknown_name
from heavytop.simulate.events import Event
from heavytop.system import Edge, JointLimits, Model

Measure = Callable[[Array, Array], Array]


def limit_events(
    model: Model, limits: Mapping[str, JointLimits] | None = None, *, terminal: bool = True, velocity: bool = False
) -> tuple[Event, ...]:
    """Events where a joint leaves its range: one for each end, named after the joint.

    Parameters
    ----------
    model : whose joints are watched.
    limits : joint name -> bounds; None: those of the system (``system.limits``, ``ht.Revolute("z", limits=(-1, 1))``, robot files).
    terminal : whether a run ends there.
    velocity : also watch the largest speeds.

    A run that starts beyond a limit meets the event only when it comes back and leaves again.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("rod", joint=ht.Revolute("y", limits=(None, 0.5)), inertia=ht.Inertia(1.0, com=(0, 0, 1.0)))
    >>> model = system.derive(native=False)
    >>> [event.name for event in limit_events(model)]
    ['rod at its upper limit 0.5']
    >>> run = ht.simulate(model, ([0.1], [0.0]), until=2.0, step=0.01, events=limit_events(model))
    >>> run.events[0].name, float(run.q[-1, 0].round(6))
    ('rod at its upper limit 0.5', 0.5)
    """
    found: list[Event] = []
    edges = {edge.label: edge for edge in model.description.graph.edges if not edge.joint.is_fixed}
    for label, bound in (model.description.limits if limits is None else limits).items():
        if label not in edges:
            raise unknown_name("joint (with limits)", label, edges)
        edge = edges[label]
        if edge.joint.own_coordinates.nv != 1:
            continue
        measure = _displacement(model, edge)
        if bound.lower is not None:
            found.append(_event(f"{label} at its lower limit {bound.lower:g}", measure, bound.lower, -1, terminal))
        if bound.upper is not None:
            found.append(_event(f"{label} at its upper limit {bound.upper:g}", measure, bound.upper, 1, terminal))
        if velocity and bound.velocity is not None:
            speed = _rate(model, edge)
            for sign, word in ((-1, "negative "), (1, "")):
                name = f"{label} at its largest {word}speed {bound.velocity:g}"
                found.append(_event(name, speed, sign * bound.velocity, sign, terminal))
    return tuple(found)


def _event(name: str, measure: Measure, bound: float, sign: int, terminal: bool) -> Event:
    """The measure less its bound, rising through zero where the bound is exceeded."""
    return Event(lambda t, q, v: sign * (measure(q, v) - bound), name, direction=1, terminal=terminal)


def _displacement(model: Model, edge: Edge) -> Measure:
    """Displacement of a joint from its neutral configuration, rad or m."""
    joint, block = edge.joint, edge.joint.own_coordinates
    place = model.coordinates.q_slice(joint.follows or edge.label)

    def measure(q: Array, v: Array) -> Array:
        return block.difference(block.neutral(), joint.follow(q[place], v)[0])[0]

    return measure


def _rate(model: Model, edge: Edge) -> Measure:
    """The velocity of a joint, rad/s or m/s."""
    if model.description.velocity is not None or model.description.basis is not None:
        raise ModelError(f"{model.name!r} has user-defined velocity coordinates: write an event for its speeds.")
    place = model.coordinates.v_slice(edge.joint.follows or edge.label)
    return lambda q, v: edge.joint.follow(q, v[place])[1][0]

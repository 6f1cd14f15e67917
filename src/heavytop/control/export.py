"""Export of a controller with its wrappers as C for a flight controller: one function per sample, with its memory as argument."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, split, symbol
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.base import BaseController
from heavytop.control.laws.wrapper import PartialPlant
from heavytop.control.linear.lqr import LinearQuadratic
from heavytop.control.observers.sensors import Sensed
from heavytop.errors import ControlError
from heavytop.system import entries_of, nominal_of

if TYPE_CHECKING:
    from heavytop.compile import Precision

VECTORS = 16


def export_controller(
    controller: BaseController,
    folder: str | Path,
    period: float,
    *,
    precision: Precision = "double",
    footprint: bool = False,
    name: str = "controller",
) -> list[Path]:
    """Export a law with its wrappers as C99, with a test; simulated sensors are not exported.

    The function takes q, v, q_R, v_R, a_R, p and the memory z, and returns u, the memory z_next of the next sample and the channels. The measured
    signals follow the velocities in v: accelerometer, rotor speeds. The memory starts with ``initial_state()``, the first vector of the test.

    Parameters
    ----------
    controller : a law, or a wrapper of one, without a reference. folder : created if missing. period : s between samples.
    precision : "double" or "float". footprint : measure code and stack size, see :func:`.compile.export_c`. name : name of function and files.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from heavytop.control import Governed, OnPart
    >>> from heavytop.copters import quadcopter
    >>> quad = quadcopter()
    >>> governed = Governed(OnPart(quad.law(limits=False), quad.model), quad.model)
    >>> sorted(path.name for path in export_controller(governed, mkdtemp(), 0.005))[2:4]
    ['controller.c', 'controller.h']
    """
    from heavytop.compile import export_c

    if controller.host is not None:
        raise ControlError(
            f"{controller.host!r} contains loops and cannot be exported together with its wrappers: controller.export_c(folder) exports it alone."
        )
    if isinstance(controller, LinearQuadratic):
        raise ControlError(f"{controller!r} has its own reference: controller.export_c(folder) exports it.")
    if not controller.needs_reference:
        raise ControlError("the exported function takes the reference as argument: export the controller without one.")
    model = controller.law.model
    plant, inside = PartialPlant.of(model), controller
    if isinstance(controller, Sensed):
        plant, inside = plant.providing(**controller.provides), controller.controller
    sampled = inside.sampled(period)
    traced = _with_signals_in_v(sampled.composed(plant), plant)
    rng, count = np.random.default_rng(0), VECTORS
    z = np.broadcast_to(sampled.initial_state(), (count, sampled.state_size)).copy()
    z[1:] *= 1 + 0.01 * rng.standard_normal(z[1:].shape)
    values = {
        "q": model.random(rng, (count,)),
        "v": 1.0 + rng.standard_normal((count, plant.nv + sum(dict(plant.signals).values()))),
        "q_R": model.random(rng, (count,)),
        "v_R": rng.standard_normal((count, model.nv)),
        "a_R": rng.standard_normal((count, model.nv)),
        "p": np.broadcast_to(model.parameter_vector(), (count, len(model.parameter_names))),
        "z": z,
        "t": period * np.arange(count),
    }
    vectors = [values[label] for label in traced.inputs]
    used = [*traced.inputs, *traced.outputs]
    entries = entries_of(model, used)
    if "v" in entries:
        measured = (f"{what}_{i}" for what, size in plant.signals for i in range(size))
        entries["v"] = (*entries["v"], *measured)
    return export_c(
        folder, {name: traced}, precision=precision, name=name, vectors={name: vectors}, footprint=footprint, entries=entries,
        nominal=nominal_of(model, used),
    )  # fmt: skip


def _with_signals_in_v(traced: Traced, plant: PartialPlant) -> Traced:
    """The function with the signals of the plant as further entries of v."""
    if not plant.signals:
        return traced
    names, sizes = zip(("v", plant.nv), *plant.signals, strict=True)
    symbols: dict[str, Array] = {}
    for name, shape in traced.inputs.items():
        if name in names:
            symbols.setdefault("v", symbol("v", sum(sizes)))
        else:
            symbols[name] = symbol(name, *shape)
    given = symbols | (dict(zip(names, split(symbols["v"], sizes), strict=True)) if "v" in symbols else {})
    outputs = traced.expressions(*(given[name] for name in traced.inputs))
    return trace_of(traced.name, symbols, dict(zip(traced.outputs, outputs, strict=True)))

"""FMUs of other tools as inputs of a run: controllers and actuators that are stepped by co-simulation."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heavytop.errors import FileFormatError, SimulationError, unknown_name
from heavytop.functions import BoundHere


def load_fmu(path: str | Path, parameters: Mapping[str, float] | None = None) -> LoadedFMU:
    """Open an FMU for co-simulation (FMI 2.0 or 3.0); needs the extra ``fmi``.

    Parameters
    ----------
    parameters : name -> value of its parameters.

    Raises
    ------
    FileFormatError
        The file is damaged, is not an FMU, or is not one for co-simulation on this platform.

    Examples
    --------
    A law of another tool, as inputs of a run (``inputs=fmu.inputs(...)``)::

        fmu = ht.load_fmu("controller.fmu")
        feedback = fmu.inputs(model, sees={"angle": "arm.angle", "rate": "arm.v_angle"}, gives=["torque"])
        run = ht.simulate(model, start, until=5.0, step=1e-3, inputs=feedback, control_step=1e-2)

    >>> load_fmu("nothing.fmu")
    Traceback (most recent call last):
    heavytop.errors.FileFormatError: there is no file 'nothing.fmu'.
    """
    return LoadedFMU(path, parameters or {})


class LoadedFMU(BoundHere):
    """An FMU for co-simulation. Made by :func:`load_fmu`; use it in a ``with`` statement, or call :meth:`close`.

    Attributes
    ----------
    input_names, output_names, parameter_names : names of its real variables. time : time of its last step, s.

    Examples
    --------
    A motor of another tool, stepped by hand::

        with ht.load_fmu("motor.fmu") as motor:
            motor.step(0.01, {"voltage": 12.0})
            print(motor.read(["torque"]))

    >>> LoadedFMU("nothing.fmu", {})
    Traceback (most recent call last):
    heavytop.errors.FileFormatError: there is no file 'nothing.fmu'.
    """

    def __init__(self, path: str | Path, parameters: Mapping[str, float]) -> None:
        self._folder = None
        self.path, self.time = str(path), 0.0
        if not Path(path).is_file():
            raise FileFormatError(f"there is no file {str(path)!r}.")
        try:
            import fmpy  # pyright: ignore[reportMissingImports]
            from fmpy.fmi2 import FMU2Slave  # pyright: ignore[reportMissingImports]
            from fmpy.fmi3 import FMU3Slave  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise FileFormatError("opening an FMU needs the package fmpy: pip install 'heavytop[fmi]'.") from None
        try:
            description: Any = fmpy.read_model_description(str(path))
            if description.coSimulation is None:
                raise FileFormatError(f"{str(path)!r} is not an FMU for co-simulation.")
            self._folder = fmpy.extract(str(path))
            kind = FMU3Slave if description.fmiVersion.startswith("3") else FMU2Slave
            self._fmu: Any = kind(
                guid=description.guid,
                unzipDirectory=self._folder,
                modelIdentifier=description.coSimulation.modelIdentifier,
                instanceName="heavytop",
            )
            self._fmu.instantiate()
        except FileFormatError:
            raise
        except Exception as error:
            self._remove()
            raise FileFormatError(
                f"{str(path)!r} is not an FMU that runs here: {type(error).__name__}: {error}."
            ) from error
        reals = [v for v in description.modelVariables if v.type in ("Real", "Float64")]
        self._references = {v.name: v.valueReference for v in reals}
        self.input_names, self.output_names, self.parameter_names = (
            tuple(v.name for v in reals if v.causality == kind) for kind in ("input", "output", "parameter")
        )
        self._is_3 = description.fmiVersion.startswith("3")
        self._parameters = dict(parameters)
        for name in parameters:
            if name not in self.parameter_names:
                raise unknown_name(f"parameter of {self.path!r}", name, self.parameter_names)
        self._initialize()

    def _initialize(self) -> None:
        if not self._is_3:
            self._fmu.setupExperiment(startTime=0.0)
        self._write(self._parameters)
        self._fmu.enterInitializationMode()
        self._fmu.exitInitializationMode()
        self.time = 0.0

    def reset(self) -> None:
        """Return to the start."""
        self._fmu.reset()
        self._initialize()

    def _write(self, values: Mapping[str, float]) -> None:
        references = [self._reference(name) for name in values]
        if references:
            (self._fmu.setFloat64 if self._is_3 else self._fmu.setReal)(references, [float(x) for x in values.values()])

    def _reference(self, name: str) -> int:
        if name not in self._references:
            raise unknown_name(f"variable of {self.path!r}", name, self._references)
        return self._references[name]

    def read(self, names: Sequence[str]) -> np.ndarray:
        """Present values (n,) of variables."""
        references = [self._reference(name) for name in names]
        return np.array((self._fmu.getFloat64 if self._is_3 else self._fmu.getReal)(references), dtype=float)

    def step(self, duration: float, inputs: Mapping[str, float] | None = None) -> None:
        """Set inputs and make one communication step of ``duration`` s."""
        self._write(inputs or {})
        try:
            self._fmu.doStep(currentCommunicationPoint=self.time, communicationStepSize=float(duration))
        except Exception as error:
            raise SimulationError(f"{self.path!r} failed in the step from t = {self.time:g} s: {error}.") from error
        self.time += float(duration)

    def inputs(self, model: Any, sees: Mapping[str, str], gives: Sequence[str]) -> Any:
        """A function ``fn(t, q, v) -> u`` for ``ht.simulate(inputs=...)``: the FMU sees coordinates and gives the inputs of a model.

        Parameters
        ----------
        sees : variable of the FMU -> coordinate or velocity of the model. gives : variables of the FMU, one for each input of the model.

        The outputs that are used at a time are those after the step up to that time with what was seen at its start.
        """
        names = [*model.q_names, *model.v_names]
        for seen in sees.values():
            if seen not in names:
                raise unknown_name(f"coordinate of {model.name!r}", seen, names)
        if len(gives) != model.nu:
            raise SimulationError(f"{model.name!r} has {model.nu} inputs, but gives= names {len(gives)} variables.")
        places = {variable: names.index(seen) for variable, seen in sees.items()}
        for name in (*sees, *gives):
            self._reference(name)

        def feedback(t: float, q: np.ndarray, v: np.ndarray) -> np.ndarray:
            if q.ndim != 1:
                raise SimulationError("an FMU steps one trajectory, not a batch.")
            if t < self.time - 1e-12:
                self.reset()
            state = np.concatenate([q, v])
            if t > self.time + 1e-12:
                self.step(t - self.time)
            self._write({variable: state[k] for variable, k in places.items()})
            return self.read(gives)

        return feedback

    def close(self) -> None:
        """Release the FMU and remove its temporary files."""
        if self._folder is not None:
            self._fmu.terminate()
            self._fmu.freeInstance()
            self._remove()

    def _remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> LoadedFMU:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LoadedFMU({self.path!r}: {len(self.input_names)} inputs, {len(self.output_names)} outputs)"

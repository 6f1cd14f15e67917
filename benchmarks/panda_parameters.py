"""Write the parameters of the Panda arm that the benchmarks use, from its URDF.

    python benchmarks/panda_parameters.py          (needs the extra 'peers')

The fingers are locked in their neutral position, so the last link carries hand and fingers. Rotations between joint frames are
quarter turns; the rounding of their cosines is removed.
"""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import numpy as np
import pinocchio as pin

URDF = "cmeel.prefix/share/example-robot-data/robots/panda_description/urdf/panda.urdf"
TARGET = Path(__file__).parents[1] / "src" / "heavytop" / "library" / "panda.json"


def main() -> None:
    model = pin.buildModelFromUrdf(str(Path(sysconfig.get_paths()["purelib"]) / URDF))
    fingers = [model.getJointId(name) for name in model.names if "finger" in name]
    model = pin.buildReducedModel(model, fingers, pin.neutral(model))
    joints = []
    for i in range(1, model.njoints):
        placement, inertia = model.jointPlacements[i], model.inertias[i]
        joints.append(
            {
                "name": model.names[i],
                "axis": model.joints[i].shortname()[-1].lower(),
                "rotation": (np.round(placement.rotation) + 0.0).tolist(),
                "position": placement.translation.tolist(),
                "mass": inertia.mass,
                "com": inertia.lever.tolist(),
                "moment_at_com": inertia.inertia.tolist(),
            }
        )
    source = "panda.urdf of the package example-robot-data, fingers locked; SI units, moments about the centre of mass"
    TARGET.write_text(json.dumps({"source": source, "joints": joints}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

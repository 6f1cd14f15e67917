"""Known attributes of MJCF elements: those that are read, those without effect on the motion here, and those that are reported as lost.

Everything else in an element that is read is reported as unknown, so that neither a misspelling nor an addition to the format is silent.
"""

from __future__ import annotations

from heavytop.io.import_report import TransferReport
from heavytop.io.urdf.vocabulary import Unknown, report_kinds
from heavytop.io.xml_elements import Element

ORIENTED = "pos quat axisangle xyaxes zaxis euler"
IN_ACTUATORS = "name class joint jointinparent tendon site refsite gear group ctrllimited ctrlrange forcelimited forcerange armature damping delay"
READ = {
    "mujoco": "model",
    "compiler": "angle eulerseq autolimits inertiafromgeom inertiagrouprange boundmass boundinertia settotalmass strippath meshdir assetdir "
    "coordinate balanceinertia alignfree exactmeshinertia fitaabb",
    "option": "gravity density viscosity wind actuatorgroupdisable",
    "flag": "gravity spring damper passive actuation equality frictionloss constraint clampctrl limit",
    "mesh": "name class file scale refpos refquat inertia vertex face",
    "material": "name class rgba",
    "worldbody": "childclass",
    "body": f"name childclass mocap gravcomp {ORIENTED}",
    "frame": f"childclass {ORIENTED}",
    "replicate": "count offset euler sep childclass",
    "inertial": f"mass diaginertia fullinertia {ORIENTED}",
    "joint": "name class type pos axis ref range limited stiffness springref springdamper damping frictionloss armature actuatorfrcrange "
    "actuatorfrclimited",
    "freejoint": "name class align",
    "geom": f"name class type size fromto mesh hfield fitscale mass density group shellinertia rgba material {ORIENTED}",
    "site": f"name class fromto {ORIENTED}",
    "spatial": "name class stiffness damping springlength frictionloss armature range limited",
    "fixed": "name class stiffness damping springlength frictionloss armature range limited",
    "tendon": "stiffness damping springlength frictionloss armature range limited",
    "connect": "name class active body1 body2 anchor site1 site2",
    "weld": "name class active body1 body2 anchor relpose torquescale site1 site2",
    "equality": "active",
    "equality/joint": "name class active joint1 joint2 polycoef",
    "equality/tendon": "name class active tendon1 tendon2 polycoef",
    "tendon/joint": "joint coef",
    "tendon/site": "site",
    "general": f"{IN_ACTUATORS} gaintype gainprm biastype biasprm dyntype dynprm actlimited actrange inheritrange",
    "motor": IN_ACTUATORS,
    "position": f"{IN_ACTUATORS} kp kv dampratio timeconst inheritrange",
    "velocity": f"{IN_ACTUATORS} kv",
    "intvelocity": f"{IN_ACTUATORS} kp kv dampratio actrange actlimited inheritrange",
    "cylinder": f"{IN_ACTUATORS} timeconst area diameter bias",
    "model": "name file",
    "attach": "model body prefix",
    "hfield": "name file nrow ncol size elevation",
    "key": "name time qpos qvel act ctrl",
    "pair": "name class geom1 geom2 friction margin",
    "exclude": "name body1 body2",
}
"""By tag, or by tags of section and element where the same tag has another meaning. Elements without a row are reported as a whole."""
IN_CONTACT = "contype conaffinity condim priority friction solmix solref solimp margin gap solreflimit solimplimit solreffriction solimpfriction"
IDLE = {
    "compiler": "conflict discardvisual convexhull fusestatic passthrough savecanonical savecompiled saveinertial texturedir usethread",
    "option": "timestep apirate impratio magnetic o_margin o_solref o_solimp o_friction integrator collision cone jacobian solver iterations "
    "tolerance ls_iterations ls_tolerance noslip_iterations noslip_tolerance mpr_iterations mpr_tolerance ccd_iterations ccd_tolerance "
    "sdf_iterations sdf_initpoints sleep_tolerance",
    "flag": "autoreset contact diagexact energy eulerdamp filterparent fwdinv invdiscrete ipc island midphase multiccd nativeccd override "
    "refsafe sensor sensornoise sleep speculative warmstart",
    "mesh": "content_type material maxhullvert normal texcoord smoothnormal builtin params",
    "hfield": "content_type",
    "model": "content_type",
    "material": "emission metallic reflectance roughness shininess specular texrepeat texture texuniform",
    "body": "sleep simple fuse",
    "geom": f"{IN_CONTACT} adhesion castshadow fluidcoef fluidshape surfacevel",
    "joint": IN_CONTACT,
    "site": "material mesh rgba size type",
    "spatial": f"{IN_CONTACT} material rgba width",
    "general": "actdim actearly",
}
IDLE |= {"fixed": IDLE["spatial"], "tendon": IDLE["spatial"], "pair": IN_CONTACT}
IDLE |= dict.fromkeys(("connect", "weld", "equality", "equality/joint"), "solref solimp")
IDLE_EVERYWHERE = "user group"
IDLE_ACTUATORS = "lengthrange nsample interp cranklength"
LOST = {
    "actuatorgravcomp": "compensation of gravity does not count as a force of actuators",
    "springyield": "springs do not yield",
    "actuatorfrcrange": "forces in tendons are not limited here",
    "actuatorfrclimited": "forces in tendons are not limited here",
}
"""Attributes that are known and not represented, where they are not read; "false" and "auto" have no effect."""
SECTIONS = (
    "compiler",
    "option",
    "default",
    "asset",
    "worldbody",
    "tendon",
    "equality",
    "actuator",
    "contact",
    "sensor",
    "keyframe",
)
LIKE = ("general", "motor", "position", "velocity", "intvelocity", "cylinder")
LEAVES = (
    *LIKE,
    "joint",
    "freejoint",
    "geom",
    "site",
    "inertial",
    "mesh",
    "connect",
    "weld",
    "equality/joint",
    "pair",
    "exclude",
)
"""Elements of which no child is read."""


def report_unread(root: Element, report: TransferReport) -> None:
    """Report the attributes of all elements that are read which are lost or unknown: one entry for each kind, with its count."""
    found: dict[Unknown, list[Element]] = {}
    _inspect(root, "mujoco", found)
    stack = [(section, "") for section in root.children if section.tag in SECTIONS]
    while stack:
        element, within = stack.pop()
        key = f"{within}/{element.tag}" if f"{within}/{element.tag}" in READ else element.tag
        if key in READ and not (element.tag in ("tendon", "equality") and not within):
            _inspect(element, key, found)
        inner = element.tag if element.tag in ("equality", "spatial", "fixed", "default") else within
        inner = "tendon" if inner in ("spatial", "fixed") else inner
        stack += [(child, inner) for child in reversed(element.children)]
    report_kinds(found, report)


def _inspect(element: Element, key: str, found: dict[Unknown, list[Element]]) -> None:
    read = READ[key].split()
    idle = f"{IDLE.get(key, '')} {IDLE_EVERYWHERE} {IDLE_ACTUATORS if key in LIKE else ''}".split()
    for name, value in element.attributes.items():
        if name in read or name in idle or name.startswith("xmlns") or value in ("false", "auto"):
            continue
        note = LOST.get(name, f"not read inside <{element.tag}>")
        found.setdefault(Unknown("attribute", name, note, tuple(read)), []).append(element)
    for child in element.children if key in LEAVES else ():
        found.setdefault(Unknown("element", child.tag, f"not read inside <{element.tag}>"), []).append(child)

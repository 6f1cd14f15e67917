"""Names under which other tools offer what heavytop has under another name: the end of the message about a missing attribute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from heavytop.errors import did_you_mean

_PAGE = "run.show('x.html') writes a page with the moving system; model.show('x.html') that of a configuration"
_RUN = "ht.simulate(model, (q, v), until=5.0, step=1e-3)"
_INPUT = "system.input('motor', ht.JointForce('joint')); ht.Thruster and ht.Wrench act on bodies"
_BODY = "system.body(name, parent=, at=, joint=ht.Revolute('y'), inertia=ht.Inertia(mass))"
_SHAPE = "system.shape(body, ht.Box((0.3, 0.2, 0.1))) is drawn on pages"
_GROUND = "system.ground(friction=0.5) and system.contact('foot', 'ground', ht.Sphere(0.02))"
_FILE = "ht.load('robot.urdf'), also MJCF and SDF files"
_POSE = "model.pose('world', frame, q), model.jacobian('world', frame, q)"
_VEHICLE = "ht.copters.load('quadcopter'), or the path of a TOML file"
_MANEUVER = "ht.maneuvers: hover, eight, waypoints, takeoff, landing and others"
_ENV = "ht.env('quadcopter', 'hover', num_envs=256), a gymnasium vector environment"
_ESTIMATE = "ht.estimator(model, sensors, period)"
_PID = "ht.Feedback(function, ('q', 'v', 'z'), memory=[0.0]); ht.control.lqr(model, q) computes gains"
_PATH = "ht.control.joint_reference(model, waypoints, limits), ht.control.path_reference(model, frame, path, limits), ht.plan(model, start, goal)"
_TABLE = "run.save('x.csv'), run.to_dataframe(), run.to_xarray()"
_STATE = "run.t, run.q, run.v, run.u, run.energy, or a signal by its name: run['rod.angle']"
_LOOP = "law.loop() of any law: bode, nyquist, step_response, state_space"
_INERTIA = "model.description.inertias maps bodies to ht.Inertia; system.set_inertia(body, inertia) replaces one"
_STEP = "ht.stepper(model, 0.01) returns a step: q, v = step(q, v, u)"
_EQUATIONS = "model.equations().text(), .latex(), .latex_document()"
_C = "model.export_c(folder), law.export_c(folder)"

_ROWS: dict[str, str] = {
    _PAGE: "show animate animation video draw display render visualize visualise viewer meshcat movie",
    _RUN: "simulate simulation simulator integrate odeint solve_ivp rollout",
    _INPUT: "actuate actuator add_actuator motor add_motor add_input torque add_force force",
    _BODY: "add_body add_link link rigid_body body joint add_joint point_mass",
    _SHAPE: "visual add_visual add_shape geometry add_geometry",
    _GROUND: "floor ground contact contacts add_ground add_contact plane",
    _FILE: "urdf load_urdf from_urdf read_urdf mjcf load_mjcf from_mjcf load_xml sdf load_sdf load_robot from_file",
    _POSE: "forward_kinematics fk kinematics frame_pose body_pose transform jacobian",
    "model.inverse_kinematics({frame: pose})": "ik inverse_kinematics solve_ik",
    "model.acceleration(q, v, u)": "forward_dynamics dynamics aba xdot qdd f",
    "model.inverse_dynamics(q, v, a); ht.control.computed_torque(model, stiffness=, damping=) is the law": "rnea inverse_dynamics",
    "model.mass_matrix(q)": "crba M inertia_matrix",
    "model.gravity_force(q), model.bias(q, v), model.coriolis_matrix(q, v)": "gravity gravity_vector coriolis nle",
    "model.linearize(q, v, u); ht.control.lqr(model, q) designs a law": "linearise linearization",
    "model.q_names, model.v_names, model.u_names; model.description has bodies, joints and inertias": "bodies joints frames links names",
    "system.limits; model.description.limits": "limits joint_limits",
    _INERTIA: "inertia inertias mass masses inertial",
    "ht.control.lqr(model, q, Q=, R=)": "lqr dlqr care",
    "ht.control.mpc(model, reference, limits=)": "mpc nmpc",
    "ht.control.equilibrium(model, q)": "equilibrium trim find_equilibrium",
    "ht.control.poles_of, ht.control.Prototype.from_poles": "place acker pole_placement",
    _PID: "pid pd pi controller",
    _LOOP: "bode nyquist step_response margin",
    _ESTIMATE: "ekf ukf kalman kalman_filter filter observer estimate",
    _PATH: "trajectory trapezoid trapezoidal path_following pure_pursuit optimize optimise optimization trajectory_optimization spline quintic",
    _VEHICLE: "quadcopter quadrotor drone multirotor copter multicopter uav vehicle load_vehicle",
    _MANEUVER: "hover land takeoff landing eight looping waypoints flip circle maneuver",
    "ht.copters.fly(vehicle, 'eight', law='robust', wind=4.0); in a shell: heavytop fly": "fly flight",
    "ht.copters.largest_payload, ht.copters.hover_time": "payload endurance",
    _ENV: "make gym_env environment rl reset train",
    _STEP: "step mj_step step_simulation do_step",
    _TABLE: "to_csv save_csv to_pandas to_numpy dataframe pandas export write",
    "ht.load_log(path, map, rate=...)": "read_csv load_csv read_log",
    _STATE: "time times x y states state positions velocities energies inputs ts ys",
    "run.outcome.ok, run.outcome.message": "success status message converged",
    "run.plot('x.png'), run.show('x.html')": "plot plots figure",
    "run.report() states energies and drift; print(model) the sizes; ht.load(...).report what a file lost": "report summary info describe",
    _EQUATIONS: "eom equations latex lagrangian equations_of_motion",
    "ht.sweep(model, over={...}, draws=1000)": "monte_carlo montecarlo study parameter_sweep",
    "ht.gradient(loss, model, (q, v), until, step)": "grad differentiate autodiff backward sensitivity",
    "ht.identify(model, log, parameters=[...], outputs=[...]), ht.load_log(path, map)": "identify identification sysid system_identification fit",
    _C: "export_c codegen generate_code c_code",
    "model.export_fmu('model.fmu')": "fmu export_fmu simulink",
    "derive() first: model = system.derive()": "derived compile build finalize finish",
    "ht.Fixed(), a joint": "weld fix fixed_joint",
}


def _key(name: str) -> str:
    return name.replace("_", "").lower()


_ADVICE = {_key(name): text for text, names in _ROWS.items() for name in names.split()}


def advice_on(name: str, known: Iterable[str]) -> str:
    """End of the message about a missing attribute: a known name of nearly the same spelling, or the call that does this here.

    >>> advice_on("load_urdf", ["load_fmu"])
    " In heavytop: ht.load('robot.urdf'), also MJCF and SDF files."
    >>> advice_on("simulat", ["simulate"])
    " Did you mean 'simulate'?"
    """
    found = _ADVICE.get(_key(name))
    return f" In heavytop: {found}." if found else did_you_mean(name, known)


def missing_from(module: str, known: Mapping[str, Any]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module with the globals ``known``: an AttributeError with :func:`advice_on` the name."""

    def missing(name: str) -> Any:
        named = () if name.startswith("_") else (n for n in known if not n.startswith("_"))
        raise AttributeError(f"module {module!r} has no attribute {name!r}.{advice_on(name, named)}", name=name)

    return missing


class Advised:
    """Base of classes whose missing attributes raise an AttributeError with :func:`advice_on` the name."""

    if not TYPE_CHECKING:  # type checkers should find misspelled names

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property whose own code raised an AttributeError
                return object.__getattribute__(self, name)
            named = () if name.startswith("_") else (n for n in dir(type(self)) if not n.startswith("_"))
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}.{advice_on(name, named)}")

"""Tracking control of rigid-body systems by a mechanical prototype: laws, references, limits, analysis."""

from typing import TYPE_CHECKING

from heavytop._elsewhere import missing_from
from heavytop.control.actuators.command_history import (
    CommandMemory as CommandMemory,
    RotorState as RotorState,
    hover_levels,
    sent_before,
)
from heavytop.control.actuators.lag import (
    Actuated as Actuated,
    LagInverse as LagInverse,
    Propellers as Propellers,
    TiltingPropellers as TiltingPropellers,
)
from heavytop.control.disturbances.air_drag import AirDrag as AirDrag
from heavytop.control.disturbances.wind import (
    WIND_AXES,
    Breeze,
    Breezes,
    ConstantWind as ConstantWind,
    Gust as Gust,
    VonKarman as VonKarman,
    Wind,
    Winds as Winds,
    Windy as Windy,
    add_rotor_drag as add_rotor_drag,
    add_wind as add_wind,
)
from heavytop.control.estimation.estimator import (
    Drawn as Drawn,
    Estimates as Estimates,
    Estimator as Estimator,
    estimator as estimator,
)
from heavytop.control.estimation.model_sensors import (
    AccelerometerSensor as AccelerometerSensor,
    AttitudeSensor as AttitudeSensor,
    DirectionSensor as DirectionSensor,
    DistanceSensor as DistanceSensor,
    EncoderSensor as EncoderSensor,
    FunctionSensor as FunctionSensor,
    GyroSensor as GyroSensor,
    HeightSensor as HeightSensor,
    ModelSensor as ModelSensor,
    PoseSensor as PoseSensor,
    PositionSensor as PositionSensor,
    VelocitySensor as VelocitySensor,
)
from heavytop.control.estimation.observability import (
    Observability as Observability,
    observability as observability,
)
from heavytop.control.estimation.observed import Estimated as Estimated, Instrumented as Instrumented
from heavytop.control.estimation.smoother import (
    Smoothed as Smoothed,
    moving_horizon as moving_horizon,
    smooth as smooth,
)
from heavytop.control.export import export_controller as export_controller
from heavytop.control.laws.base import BaseController
from heavytop.control.laws.computed_torque import ComputedTorque, computed_torque as computed_torque
from heavytop.control.laws.energy import (
    AttitudeBlock as AttitudeBlock,
    EnergyBlock,
    JointBlock as JointBlock,
    PointBlock as PointBlock,
    PoseBlock as PoseBlock,
    default_blocks,
)
from heavytop.control.laws.integral import Integral as Integral
from heavytop.control.laws.law import FeedbackLaw as FeedbackLaw, Law as Law, trace_inputs
from heavytop.control.laws.prototype import (
    DesiredDamping as DesiredDamping,
    DesiredInertia as DesiredInertia,
    Prototype as Prototype,
    lateral_lever as lateral_lever,
    moments_about_origin,
    poles_of as poles_of,
)
from heavytop.control.laws.prototype_gains import (
    DISTRIBUTIONS,
    TunableLaw as TunableLaw,
    moments_of,
    moved_blocks,
    numbers_of,
    symbolic_prototype,
    tunable as tunable,
    with_numbers,
)
from heavytop.control.laws.tracking_laws import (
    TiltingLaw as TiltingLaw,
    body_law as body_law,
    energy_law as energy_law,
    particle_law as particle_law,
)
from heavytop.control.laws.wrapper import (
    PartialPlant as PartialPlant,
    Seen as Seen,
    Signals as Signals,
    Tracking as Tracking,
    Wrapper as Wrapper,
)
from heavytop.control.limits.box_qp import box_qp
from heavytop.control.limits.thrust_sector import Sector as Sector, TiltLimits as TiltLimits
from heavytop.control.linear.analysis import (
    ClosedLoop as ClosedLoop,
    energy_balance as energy_balance,
    floquet_exponents as floquet_exponents,
    hover as hover,
    linearize as linearize,
    random_states as random_states,
    region_of_attraction as region_of_attraction,
)
from heavytop.control.linear.certificate import (
    Certificate as Certificate,
    certificate as certificate,
    energy_level as energy_level,
)
from heavytop.control.linear.equilibrium import Equilibrium as Equilibrium, equilibrium as equilibrium
from heavytop.control.linear.linearised_loop import (
    MissedPolesWarning as MissedPolesWarning,
    UnstableWarning as UnstableWarning,
)
from heavytop.control.linear.loop import FeedbackLoop as FeedbackLoop
from heavytop.control.linear.lqr import LinearQuadratic as LinearQuadratic, Weights as Weights, lqr as lqr
from heavytop.control.linear.margins import Margins as Margins, margins as margins
from heavytop.control.linear.prototype_design import Design as Design
from heavytop.control.mpc.controller import (
    DivergenceWarning as DivergenceWarning,
    Predictive as Predictive,
    mpc as mpc,
)
from heavytop.control.observers.compensation import Compensated as Compensated
from heavytop.control.observers.disturbance_observers import (
    ForceObserver as ForceObserver,
    MomentObserver as MomentObserver,
    ThrustScale as ThrustScale,
)
from heavytop.control.observers.hull import UP, Hull as Hull, HullMotion, limited, within
from heavytop.control.observers.identification import Identified as Identified
from heavytop.control.observers.measurements import Delayed as Delayed, Noisy as Noisy, OnPart as OnPart
from heavytop.control.observers.momentum import Balanced as Balanced, MomentumObserver as MomentumObserver
from heavytop.control.observers.prediction import Predicted as Predicted
from heavytop.control.observers.sensors import Sensed as Sensed, Sensor as Sensor, Sensors as Sensors
from heavytop.control.observers.state_filter import Filtered as Filtered
from heavytop.control.observers.thrust_loss import GONE, ThrustLoss as ThrustLoss
from heavytop.control.references.curves import (
    Curve,
    circle as circle,
    derivatives,
    figure_eight as figure_eight,
    looping as looping,
    minimum_snap as minimum_snap,
    rest_to_rest as rest_to_rest,
    smoothstep as smoothstep,
)
from heavytop.control.references.feasibility import Exceeded as Exceeded, Feasibility as Feasibility
from heavytop.control.references.flatness import (
    flat_reference as flat_reference,
    oscillation_reference as oscillation_reference,
)
from heavytop.control.references.governor import Governed as Governed
from heavytop.control.references.joint_reference import (
    JointReference as JointReference,
    MotionLimits as MotionLimits,
    joint_reference as joint_reference,
)
from heavytop.control.references.path_reference import arc as arc, line as line, path_reference as path_reference
from heavytop.control.references.reference import Reference as Reference, pose_coordinates
from heavytop.control.references.sequence import joined, sequence as sequence
from heavytop.control.references.thrust_reference import (
    constrained_least,
    flip as flip,
    thrust_correction,
    thrust_reference as thrust_reference,
)
from heavytop.control.references.time_allocation import snap_shares as snap_shares, timed_snap as timed_snap
from heavytop.control.references.tree_reference import tree_reference as tree_reference
from heavytop.control.references.virtual_vehicle import (
    VirtualVehicle as VirtualVehicle,
    recorded_reference as recorded_reference,
    virtual_reference as virtual_reference,
)
from heavytop.control.robust_wrappers import (
    LONGEST,
    Tuned as Tuned,
    Tuning as Tuning,
    fastest_pole,
    robust as robust,
    sampled_pole,
)
from heavytop.ocp import Limits as Limits, Within as Within
from heavytop.simulate import Controller as Controller

if not TYPE_CHECKING:  # type checkers should find misspelled names
    __getattr__ = missing_from(__name__, globals())

"""An arm and a gripper from two MJCF files: attached model, coupled fingers, stored states, servos whose forces are clamped, a gyroscope."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)
(out / "gripper.xml").write_text("""<mujoco><compiler angle="radian"/><worldbody><body name="palm">
  <geom type="box" size=".04 .08 .03" rgba=".2 .2 .25 1"/><site name="imu"/>
  <body name="left" pos="0 .03 .05"><joint name="left" type="slide" axis="0 1 0" range="0 .04"/><geom type="box" size=".02 .008 .04"/></body>
  <body name="right" pos="0 -.03 .05"><joint name="right" type="slide" axis="0 -1 0"/><geom type="box" size=".02 .008 .04"/></body>
</body></worldbody><equality><joint joint1="right" joint2="left"/></equality>
<actuator><position name="grip" joint="left" kp="400" kv="20" forcerange="-5 5"/></actuator>
<sensor><gyro name="rate" site="imu"/></sensor></mujoco>""")
(
    out / "arm.xml"
).write_text("""<mujoco model="arm"><compiler angle="radian"/><asset><model name="gripper" file="gripper.xml"/></asset>
<default><joint axis="0 1 0" damping="1" armature=".1"/><geom type="capsule" size=".05" rgba=".9 .6 .2 1" density="700"/>
  <position kp="600" dampratio="1" forcerange="-60 60"/></default>
<worldbody><geom type="cylinder" size=".12 .1" pos="0 0 .1"/><body name="column" pos="0 0 .2"><joint name="pan" axis="0 0 1"/>
  <geom fromto="0 0 0 0 0 .2"/><body name="upper" pos="0 0 .2"><joint name="shoulder" range="-2 2"/><geom fromto="0 0 0 0 0 .45"/>
    <body name="lower" pos="0 0 .45"><joint name="elbow" range="-2.5 2.5"/><geom fromto="0 0 0 0 0 .35" size=".04"/>
      <frame pos="0 0 .43"><attach model="gripper" prefix="hand_"/></frame></body></body></body></worldbody>
<actuator><position name="pan" joint="pan"/><position name="shoulder" joint="shoulder"/><position name="elbow" joint="elbow"/></actuator>
<sensor><actuatorfrc name="torque" actuator="shoulder"/></sensor>
<keyframe><key name="home" qpos="0 -.6 1.8 .01 .01" ctrl="0 -.6 1.8 .01"/><key name="reach" qpos="1.2 .9 .3 .04 .04" ctrl="1.2 .9 .3 .04"/></keyframe>
</mujoco>""")

system = ht.load(out / "arm.xml")
print(system.report)
model = system.derive()
home, reach = system.keyframes["home"], system.keyframes["reach"]
actuation = system.actuation()

# the commands jump from one stored state to the other; with clamped forces, and with servos as strong as their gains
laws = {
    "clamped to 60 N m": actuation.feedback(lambda t, q, v: np.where(t < 0.3, home.u, reach.u)),
    "not clamped": ht.Feedback(lambda t, q, v: np.where(t < 0.3, home.u, reach.u)),
}
options = {"until": 2.5, "step": 1e-3, "hold": "continuous", "breakpoints": (0.3,), "record_every": 10}
runs = {name: ht.simulate(model, home, control=law, **options) for name, law in laws.items()}

fig, axes = figure(ncols=3, figsize=(11, 3.4))
for (name, run), color in zip(runs.items(), ("#0072b2", "#d55e00"), strict=True):
    shoulder = model.q_names.index("shoulder.angle")
    rate = system.sensors["hand_rate"](model, run.q, run.v)
    torque = system.sensors["torque"](model, run.q, run.v, run.u)
    axes[0].plot(run.t, run.q[:, shoulder], color=color, label=name)
    axes[1].plot(run.t, torque, color=color)
    axes[2].plot(run.t, np.linalg.norm(rate, axis=-1), color=color)
    print(f"{name}: {run.outcome}, end {np.abs(run.q[-1] - reach.q).max():.1e} from the stored state")
titles = ("shoulder in rad", "torque of its servo in N m", "gyroscope of the hand in rad/s")
for ax, title in zip(axes, titles, strict=True):
    ax.set(xlabel="t in s", title=title)
axes[0].legend()
finish(fig, out / "robot_files.png")
page(runs["clamped to 60 N m"], out / "robot_files.html")

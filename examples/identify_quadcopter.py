"""From the log to the model: a quadcopter identified from the CSV of one flight, checked on another, and written as an airframe."""

from pathlib import Path

import numpy as np
from _example import finish, folder

import heavytop as ht
from heavytop.copters import catalogue
from heavytop.geometry import quaternion_from_rotation

out = folder(__doc__)
text = Path(str(catalogue.FOLDER / "crazyflie.toml")).read_text(encoding="utf-8")
(out / "first_guess.toml").write_text(text, encoding="utf-8")
# the vehicle that really flies: heavier to turn, slower motors
real = text.replace("1.6571710e-5, 1.6655602e-5", "2.4e-5, 2.1e-5").replace("constant = 0.072", "constant = 0.055")
(out / "real.toml").write_text(real, encoding="utf-8")
drone = ht.copters.load(out / "real.toml")
MAP = """
[time]
column = "t"
[signals]
position = { columns = ["x", "y", "z"], unit = "m" }
velocity = { columns = ["vx", "vy", "vz"], unit = "m/s" }
attitude = { columns = ["qw", "qx", "qy", "qz"] }
angular_velocity = { columns = ["p", "q", "r"], unit = "deg/s" }
motors = { columns = ["m1", "m2", "m3", "m4"], scale = 1.5259021896696422e-05 }
"""
(out / "map.toml").write_text(MAP, encoding="utf-8")


def fly_and_log(maneuver: str, path: Path, seed: int) -> None:
    """Fly with rotors that lag behind, and write a log at 100 Hz as motion capture and autopilot would: noisy, PWM of 16 bits."""
    flight = ht.copters.fly(drone, maneuver, rotors=True, step=0.01)
    run, rng = flight.run, np.random.default_rng(seed)
    R = np.swapaxes(run.q[:, 3:12].reshape(-1, 3, 3), -1, -2)
    position = run.q[:, :3] + 0.001 * rng.standard_normal((len(run.t), 3))
    velocity = np.matvec(R, run.v[:, :3]) + 0.01 * rng.standard_normal((len(run.t), 3))
    rates = np.degrees(run.v[:, 3:6] + 0.02 * rng.standard_normal((len(run.t), 3)))
    most = drone.propulsion.thrust_range[1]
    pwm = np.round(65535 * np.sqrt(np.clip(flight.commands, 0.0, most) / most))
    columns = [run.t[:, None], position, velocity, quaternion_from_rotation(R), rates, pwm]
    names = "t,x,y,z,vx,vy,vz,qw,qx,qy,qz,p,q,r,m1,m2,m3,m4"
    np.savetxt(path, np.concatenate(columns, axis=1), delimiter=",", header=names, comments="")


fly_and_log("eight", out / "eight.csv", 1)
fly_and_log("circle", out / "circle.csv", 2)

logs = {name: ht.load_log(out / f"{name}.csv", out / "map.toml") for name in ("eight", "circle")}
guess = ht.copters.load(out / "first_guess.toml")
found = ht.identify.identify_copter(guess, logs["eight"])
print(found.summary())
simple = ht.identify.identify_copter(guess, logs["eight"], model="quadratic")
for name, model in (("quadratic rotors without lag", simple), ("full model", found)):
    errors = ", ".join(f"{signal} {value:.4f}" for signal, value in model.predict(logs["circle"]).mean().items())
    print(f"prediction of the circle over 0.5 s, {name}: {errors}")
found.save(out / "fitted.toml", airframe=out / "first_guess.toml")
print(f"airframe: {out / 'fitted.toml'}; page: {found.page(out / 'identify_quadcopter.html')}")
finish(found.plot(), out / "identify_quadcopter.png")

"""Errors of an attitude filter from a large initial error, with the deviations that it expects, and their normalised squares."""

import numpy as np
from common import BLUE, GREY, RED, plt, save

import heavytop as ht
from heavytop.control import AccelerometerSensor, GyroSensor, PoseSensor

model = ht.library.quadcopter().derive()
sensors = (
    GyroSensor("hull", noise=0.02),
    AccelerometerSensor("hull", noise=0.2),
    PoseSensor("hull", noise=(0.02,) * 3 + (0.04,) * 3, period=0.1, delay=0.05),
)
own = ht.estimator(model, sensors, 0.01, inputs="imu")
start = own.begin(model.random(1), np.zeros(6), configuration=0.1, velocity=0.3)
t = 0.01 * np.arange(200)
imu = np.stack([np.sin(3 * t), np.cos(2 * t), 0.5 + 0 * t, np.sin(5 * t), 0 * t, 9.81 + 0 * t], axis=1)
drawn = own.draw(np.tile(start, (200, 1)), imu, seed=0)
found = own.filter(np.tile(start, (200, 1)), drawn.inputs, drawn.readings)
errors = found.errors(drawn.q, drawn.v)
turn = own.error_names.index("turn of hull about x")
deviation = np.degrees(np.sqrt(found.covariance[:, 0, turn, turn]))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(found.t, np.degrees(errors[:, :20, turn]), color=BLUE, lw=0.6, alpha=0.6)
left.plot(found.t, 2 * deviation, color=RED, label="two expected deviations")
left.plot(found.t, -2 * deviation, color=RED)
left.set(xlabel="time in s", ylabel="error about an axis in degrees", ylim=(-12, 12))
left.legend(fontsize=8, loc="upper right")
right.plot(found.t, found.nees(drawn.q, drawn.v).mean(axis=1) / found.expected_nees(), color=BLUE)
spread = 1.96 * np.sqrt(2 / (found.expected_nees() * errors.shape[1]))  # of the mean of chi-square variables
right.axhspan(1 - spread, 1 + spread, color=GREY, alpha=0.3, lw=0, label="95 % of such means")
right.set(xlabel="time in s", ylabel="mean NEES per degree of freedom", ylim=(0, 2))
right.legend(fontsize=8, loc="upper right")
save(figure, "estimation")

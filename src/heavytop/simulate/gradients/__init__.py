"""Gradients of whole motions: derivatives of runs with respect to start, parameters, inputs, gains and reference."""

from heavytop.simulate.gradients.gradient import Gradient as Gradient, Loss as Loss, gradient as gradient, gradient_of
from heavytop.simulate.gradients.rollout import Bars, Directions, Path, Rollout
from heavytop.simulate.gradients.run_function import RunFunction, TracedFunction
from heavytop.simulate.gradients.tune import TunedGains as TunedGains, tune as tune

"""Environments for learners: batches of systems with a task, stepped natively; gymnasium, stable-baselines3."""

from heavytop.gym.actions import (
    Action as Action,
    BodyRates as BodyRates,
    Inputs as Inputs,
    Tilts as Tilts,
    Velocity as Velocity,
)
from heavytop.gym.draws import Draw as Draw
from heavytop.gym.make import env as env, names as names
from heavytop.gym.task import At as At, EnvTask as EnvTask

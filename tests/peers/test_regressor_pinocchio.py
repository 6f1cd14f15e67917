"""The regressor of the Panda and its base parameters against Pinocchio."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_bench.peers.pinocchio import PinocchioTree
from heavytop_bench.trees import panda

import heavytop as ht
from heavytop.identify import Regressor, base_parameters

pytestmark = pytest.mark.peers
pin = pytest.importorskip("pinocchio")


def test_panda() -> None:
    model = ht.library.panda().derive()
    engine = PinocchioTree(panda())
    peer, data = engine.model, engine.data
    rng = np.random.default_rng(0)
    q, v, a = rng.standard_normal((3, 300, 7))
    regressor = Regressor(model)
    Y, rest = regressor(q, v, a)
    theirs = np.stack([pin.computeJointTorqueRegressor(peer, data, *x).copy() for x in zip(q, v, a, strict=True)])
    assert np.abs(Y - theirs).max() < 1e-9
    assert np.abs(rest).max() < 1e-9
    torques = np.stack([pin.rnea(peer, data, *x).copy() for x in zip(q, v, a, strict=True)])
    torques += 0.1 * rng.standard_normal(torques.shape)
    found = base_parameters(regressor, q, v, a, torques)
    assert np.linalg.matrix_rank(theirs.reshape(-1, 70), tol=1e-6) == len(found.values) == 43
    weighted = (theirs[..., found.columns] / found.noise[:, None]).reshape(-1, 43)
    solution = np.linalg.lstsq(weighted, (torques / found.noise).reshape(-1), rcond=None)[0]
    assert np.abs(found.values - solution).max() < 1e-9
    exact = np.matvec(theirs, regressor.values)
    again = base_parameters(regressor, q, v, a, exact)
    same = np.linalg.lstsq(theirs[..., again.columns].reshape(-1, 43), exact.reshape(-1), rcond=None)[0]
    assert np.abs(again.values - same).max() < 1e-9

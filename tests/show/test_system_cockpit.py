"""The cockpit of any system: levers, hand, numbers."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import SimulationError
from heavytop.show import SystemCockpit

pytestmark = pytest.mark.thorough


def test_levers_hand_and_numbers_of_a_regulated_pendulum() -> None:
    pytest.importorskip("viser")
    model = ht.library.furuta().derive()
    law = ht.control.lqr(model, [0.0, 0.0])
    run = ht.simulate(model, ([0.2, 0.1], [0.0, 0.0]), until=0.1, step=2e-3, control=law)
    cockpit = SystemCockpit(run, port=18180)
    try:
        assert {"m_p", "joint friction", "gain tau: alpha.rate"} <= set(cockpit.sliders)
        ended = threading.Event()
        advance = cockpit.live.advance

        def counted(seconds: float) -> None:
            advance(seconds)
            if cockpit.live.time > 0.2:  # simulated time: a busy machine takes longer
                ended.set()

        cockpit.live.advance = counted
        cockpit._held.value = "pendulum"
        cockpit._grab()
        cockpit._pull(np.array([0.3, 0.1, 0.3]))
        cockpit.run(ended)
        assert ended.is_set()
        assert cockpit.live.problem is None
        text = cockpit.numbers_html()
        assert "rotary pendulum" in text
        assert "energy drift" in text
        cockpit._restart()
        assert cockpit.live.time == 0.0
    finally:
        cockpit.close()


def test_other_machines_need_a_word() -> None:
    model = ht.library.pendulum().derive()
    run = ht.simulate(model, ([0.2], [0.0]), until=0.1, step=0.01)
    with pytest.raises(SimulationError, match="--network"):
        SystemCockpit(run, host="0.0.0.0")

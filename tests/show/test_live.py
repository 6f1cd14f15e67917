"""The window of the cockpit: numbers, levers, commands."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from heavytop.cli import app
from heavytop.control import ConstantWind, VonKarman
from heavytop.copters.live import LiveFlight
from heavytop.errors import HeavytopError
from heavytop.show.live_levers import numbers_html


@pytest.mark.thorough
def test_the_numbers_name_limits_and_notes() -> None:
    s = LiveFlight("quadcopter", background=False).snapshot
    text = numbers_html(replace(s, u=np.array([6.0, 0.0, 2.0, 2.0]), note="<b>careful</b>", tracking_error=1.2345))
    assert text.count("■ limit") == 2
    assert "0 … 6 N" in text
    assert "1.234 m" in text or "1.235 m" in text
    assert "&lt;b&gt;careful" in text
    assert "not limited" in numbers_html(LiveFlight("tricopter", background=False).snapshot)


def test_without_viser_the_command_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from heavytop.show import Cockpit
    from heavytop.show.live import MissingViserError

    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(MissingViserError, match=r"pip install 'heavytop\[live\]'") as caught:
        Cockpit()
    assert isinstance(caught.value, HeavytopError)
    result = CliRunner().invoke(app, ["cockpit", "--no-open"])
    assert result.exit_code == 2
    assert "pip install 'heavytop[live]'" in result.output


def test_an_unknown_vehicle_is_named_on_the_command_line() -> None:
    pytest.importorskip("viser")
    result = CliRunner().invoke(app, ["cockpit", "--no-open", "--vehicle", "quadcoptr"])
    assert result.exit_code == 2
    assert "unknown vehicle 'quadcoptr'. Did you mean 'quadcopter'?" in result.output


@pytest.mark.thorough
def test_the_window_follows_drags_winds_and_another_vehicle() -> None:
    pytest.importorskip("viser")
    from types import SimpleNamespace

    from heavytop.show import Cockpit

    cockpit = Cockpit("tricopter", port=18080)
    try:
        flight, panel, view = cockpit.flight, cockpit._levers, cockpit._view
        flight._background = False
        view.draw(flight.snapshot)
        panel.show(flight.snapshot)
        assert set(panel._sliders) == {f"{a} {b}" for a in ("position", "attitude") for b in ("frequency", "damping")}
        (callback,) = view._goal._impl_aux.update_cb
        asyncio.run(callback(SimpleNamespace(phase="update", target=SimpleNamespace(position=(1.0, 2.0, 3.0)))))
        flight.advance(0.01)
        assert flight.snapshot.set_point == pytest.approx([1.0, 2.0, 3.0])
        asyncio.run(callback(SimpleNamespace(phase="end", target=SimpleNamespace(position=(1.0, 2.0, 2.0)))))
        flight.advance(0.01)
        view.draw(flight.snapshot)
        assert view._goal.position == pytest.approx([1.0, 2.0, 2.0])
        for kind, expected in (("off", None), ("steady", ConstantWind), ("gusty", VonKarman)):
            panel._wind.value = kind
            wind = panel.chosen_wind()
            assert wind is None if expected is None else isinstance(wind, expected)
        impulse, twist = panel.impulses("-y")
        assert impulse == pytest.approx([0.0, -1.5 * 1.2, 0.0])
        assert panel.impulses("yaw")[1] == pytest.approx([0.0, 0.0, 3.0 * 1.5 * 0.024])
        assert not twist.any()
        flight.choose("quadcopter")
        flight.advance(0.01)
        view.draw(flight.snapshot)
        panel.show(flight.snapshot)
        assert "yaw damping" in panel._sliders
        assert sum(name.startswith("rotor") for name in view._frames) == 4
        assert "looping" in panel._maneuver.options
        ended = threading.Event()
        threading.Timer(0.5, ended.set).start()
        cockpit.run(ended)
        assert flight._thread is None
    finally:
        cockpit.close()

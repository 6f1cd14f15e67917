"""The cockpit lets in who knows its address, and takes no NaN."""

import numpy as np
import pytest

from heavytop.control import ConstantWind
from heavytop.copters.live import LiveFlight
from heavytop.errors import ShapeError, SimulationError
from heavytop.show.live import Cockpit
from heavytop.show.live_guard import Guard, check_host


def handshake(**changes: str) -> dict[str, str]:
    return {
        "Upgrade": "websocket",
        "Host": "localhost:8080",
        "Origin": "http://localhost:8080",
        "Cookie": "heavytop=secret",
        **changes,
    }


def test_handshakes_need_origin_and_cookie() -> None:
    guard = Guard("secret")
    assert guard.allows("/", handshake())
    assert not guard.allows("/", handshake(Origin="http://evil.example"))
    assert not guard.allows("/", handshake(Origin="null"))
    assert not guard.allows("/", handshake(Origin=""))
    assert not guard.allows("/", handshake(Cookie="heavytop=guess"))
    assert not guard.allows("/?token=secret", handshake(Cookie=""))
    assert not guard.allows("/", {})
    assert not guard.allows("/?token=", {})
    assert not guard.allows("/", {"Cookie": "\x00=;;heavytop"})
    assert Guard().token != Guard().token


def test_other_machines_need_a_word() -> None:
    with pytest.raises(SimulationError, match="--network"):
        Cockpit(host="0.0.0.0")
    check_host("127.0.0.1", network=False)
    check_host("0.0.0.0", network=True)


def test_numbers_must_be_finite() -> None:
    flight = LiveFlight("quadcopter", background=False)
    with pytest.raises(ShapeError, match="wind must be finite"):
        flight.wind(ConstantWind((np.nan, 0.0, 0.0)))
    with pytest.raises(ShapeError, match="yaw must be finite"):
        flight.set_point((0.0, 0.0, 1.0), np.inf)
    with pytest.raises(ShapeError, match="gains must be finite"):
        flight.gains({"position": np.nan})


@pytest.mark.thorough
def test_the_server_turns_strangers_away() -> None:
    pytest.importorskip("viser")
    from urllib.error import HTTPError
    from urllib.request import urlopen

    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    cockpit = Cockpit(port=18080)
    try:
        plain = cockpit.address.partition("/?")[0]
        with pytest.raises(HTTPError, match="403"):
            urlopen(plain)
        answer = urlopen(cockpit.address)
        assert answer.status == 200
        assert "SameSite=Strict" in answer.headers["Set-Cookie"]
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        place = plain.replace("http", "ws")
        with pytest.raises(InvalidStatus):  # as any page in the same browser could
            connect(place, origin="http://evil.example", additional_headers={"Cookie": cookie})
        with pytest.raises(InvalidStatus):
            connect(place, origin=plain)
        with connect(place, origin=plain, additional_headers={"Cookie": cookie}) as socket:
            assert socket.response.status_code == 101
    finally:
        cockpit.close()

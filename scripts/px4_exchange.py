"""Write tests/golden/px4_exchange.json.gz: the messages that a PX4 and its simulator exchange from power-on to flight, as bytes.

This is not a recording of a PX4, which is not available here. Every message is packed from named fields by the layout that MAVLink's definition
gives (pymavlink's tables of field names, types and checksums), with PX4's values as its simulator link (SimulatorMavlink.cpp) sends them:
controls with its clock as time, mode 1 or 129, flag 1 (lock-step). Attitudes are SciPy's. Nothing of heavytop is used.
"""

import gzip
import json
import struct
from math import radians
from pathlib import Path

import numpy as np
from pymavlink.dialects.v20 import common
from pymavlink.generator.mavcrc import x25crc
from scipy.spatial.transform import Rotation

PERIOD = 4000  # us
READY, SWITCHED, ARMED, LIFTS, SAMPLES = (
    10,
    376,
    377,
    380,
    405,
)  # samples of the events; the vehicle is released at LIFTS
LATITUDE, LONGITUDE, ALTITUDE, EARTH = 47.397742, 8.545594, 488.0, 6378137.0
FIELD = np.array([0.2148, 0.0109, 0.4280])  # north, east, down, gauss
HOVER, LEAST = 0.62, 0.05
PX4, SIMULATOR = (1, 1), (1, 200)
WATCHED = (2, 26, 276, SWITCHED, 381, 382, 401)  # samples whose messages of the simulator are kept
sequence = {PX4: 0, SIMULATOR: 0}


def frame(source, kind, **fields):
    """A MAVLink 2 frame: fields by name, in the order of the wire, zeros at the end left out."""
    message = getattr(common, f"MAVLink_{kind.lower()}_message")
    values = []
    for name, length in zip(message.ordered_fieldnames, message.array_lengths, strict=True):
        value = fields.pop(name, 0)
        values += [*value, *[0] * (length - len(value))] if length and not isinstance(value, bytes) else [value]
    assert not fields, fields
    payload = message.unpacker.pack(*values).rstrip(b"\0") or b"\0"
    head = struct.pack("<BBBBBB", len(payload), 0, 0, sequence[source], *source) + message.id.to_bytes(3, "little")
    sequence[source] = (sequence[source] + 1) % 256
    sum_ = x25crc(head + payload)
    sum_.accumulate(bytes([message.crc_extra]))
    return (b"\xfd" + head + payload + struct.pack("<H", sum_.crc)).hex()


def motion(k):
    """The vehicle at a sample: at rest until it is released, then tilted and on its way; axes north, east, down and forward, right, down."""
    if k <= LIFTS:
        return {
            "angles": (0, 0, 0),
            "position": (0, 0, 0),
            "velocity": (0, 0, 0),
            "gyro": (0, 0, 0),
            "force": (0, 0, -9.81),
        }
    return {
        "angles": (30.0, -5.0, 10.0), "position": (3.0, -4.0, -2.5), "velocity": (1.5, -0.5, -0.25),
        "gyro": (0.1, -0.2, 0.3), "force": (0.5, -0.4, -9.7),
    }  # fmt: skip


def sent_by_simulator(k):
    """The messages of a sample by name: sensors without noise, position, set point."""
    m, t = motion(k), k * PERIOD
    attitude = Rotation.from_euler("ZYX", m["angles"], degrees=True)
    (n, e, d), (vn, ve, vd) = m["position"], m["velocity"]
    latitude = LATITUDE + np.degrees(n / EARTH)
    longitude = LONGITUDE + np.degrees(e / EARTH / np.cos(radians(LATITUDE)))
    place = {"lat": round(1e7 * latitude), "lon": round(1e7 * longitude), "alt": round(1e3 * (ALTITUDE - d))}
    speeds = {"vn": round(100 * vn), "ve": round(100 * ve), "vd": round(100 * vd)}
    slow, found = (k - 1) % 5 == 0, {}
    if (k - 1) % 25 == 0:
        x, y, z, w = attitude.as_quat()
        found["HIL_STATE_QUATERNION"] = {
            "time_usec": t, "attitude_quaternion": (w, x, y, z), **place, "vx": speeds["vn"], "vy": speeds["ve"], "vz": speeds["vd"],
            **dict(zip(("rollspeed", "pitchspeed", "yawspeed"), m["gyro"], strict=True)),
            **dict(zip(("xacc", "yacc", "zacc"), (round(f / 9.80665e-3) for f in m["force"]), strict=True)),
        }  # fmt: skip
        found["HIL_GPS"] = {
            "time_usec": t, "fix_type": 3, **place, "eph": 30, "epv": 40, "vel": round(np.hypot(100 * vn, 100 * ve)), **speeds,
            "cog": round(100 * (np.degrees(np.arctan2(ve, vn)) % 360.0)), "satellites_visible": 12,
        }  # fmt: skip
    altitude = ALTITUDE - d
    found["HIL_SENSOR"] = {
        "time_usec": t, "abs_pressure": 1013.25 * (1 - 0.0065 * altitude / 288.15) ** 5.25588, "pressure_alt": altitude, "temperature": 25.0,
        "fields_updated": 0b1101111111111 if slow else 0b111111,
        **dict(zip(("xacc", "yacc", "zacc", "xgyro", "ygyro", "zgyro"), (*m["force"], *m["gyro"]), strict=True)),
        **dict(zip(("xmag", "ymag", "zmag"), attitude.inv().apply(FIELD), strict=True)),
    }  # fmt: skip
    return found


def api_from_simulator(k):
    """The commands that switch to offboard mode and arm, and set points: position, velocity, heading."""
    found = []
    if k == SWITCHED:
        for command, *values in ((176, 1.0, 6.0), (400, 1.0)):
            named = {f"param{j}": value for j, value in enumerate(values, 1)}
            found.append(("COMMAND_LONG", {"target_system": 1, "target_component": 1, "command": command, **named}))
    if (k - 1) % 5 == 0:
        goal = (1.0, -2.0, -3.0) if k > LIFTS else (0, 0, -0.5) if k > READY + 250 else (0, 0, 0)
        set_point = {
            "time_boot_ms": k * PERIOD // 1000, "target_system": 1, "target_component": 1, "coordinate_frame": 1, "type_mask": 0b100111000000,
            **dict(zip("xyz", goal, strict=True)), "vx": 0.5 * (k > LIFTS), "vy": -0.25 * (k > LIFTS), "yaw": radians(30) * (k > LIFTS),
        }  # fmt: skip
        found.append(("SET_POSITION_TARGET_LOCAL_NED", set_point))
    return found


def sent_by_px4(k):
    """Controls of the sample, and on the API link the heartbeat, the estimate when it is ready and a text; nothing while it starts."""
    if k < 3:
        return [], []
    lift = LEAST + (HOVER - LEAST) * min(max(k - ARMED, 0) / (LIFTS - ARMED), 1.0)
    turn = 0.01 * (k - LIFTS) if k > LIFTS else 0.0
    controls = [lift + turn, lift - turn, lift + turn, lift - turn] if k >= ARMED else [0.0] * 4
    mode = 129 if k >= ARMED else 1
    simulator = [frame(PX4, "HIL_ACTUATOR_CONTROLS", time_usec=k * PERIOD, controls=controls, mode=mode, flags=1)]
    api = []
    if k == 3:
        api.append(
            frame(
                PX4, "HEARTBEAT", type=2, autopilot=12, base_mode=81, custom_mode=0, system_status=3, mavlink_version=3
            )
        )
    if k >= READY and k % 25 == 10:
        api.append(frame(PX4, "LOCAL_POSITION_NED", time_boot_ms=k * PERIOD // 1000))
    if k == ARMED:
        api.append(frame(PX4, "STATUSTEXT", severity=6, text=b"Armed by external command".ljust(50, b"\0")))
    return simulator, api


def exchange():
    """The whole exchange: everything that PX4 sends, and at some samples everything that the simulator sends."""
    px4 = [{"sample": k, "simulator": s, "api": a} for k in range(1, SAMPLES + 1) for s, a in [sent_by_px4(k)] if s]
    simulator = {}
    for k in WATCHED:
        messages = {"simulator": sent_by_simulator(k).items(), "api": api_from_simulator(k)}
        simulator[k] = {
            link: [frame(SIMULATOR, kind, **fields) for kind, fields in sent] for link, sent in messages.items()
        }
    return {"about": __doc__, "released": LIFTS, "px4": px4, "simulator": simulator}


if __name__ == "__main__":
    file = Path(__file__).parents[1] / "tests" / "golden" / "px4_exchange.json.gz"
    file.write_bytes(gzip.compress(json.dumps(exchange(), separators=(",", ":")).encode(), mtime=0))
    print(f"{file}: {file.stat().st_size:,} bytes")

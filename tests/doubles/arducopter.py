"""A small conforming ArduPilot: its JSON interface as its source (SIM_JSON.cpp) defines it, without a word of heavytop.

It sends a frame of pulses, waits for the state, and sends the frame again after a second without one. Its parser finds a key and reads numbers after
the two characters that follow it; vectors begin with a bracket there. Motors follow the throttle once the rudder has armed it. The variable DOUBLE
makes it impatient (every frame is sent twice), refuse arming, or crash in flight.
"""

import os
import re
import socket
import struct
import sys

KEYS = [
    ("", "timestamp", 0), ("imu", "gyro", 3), ("imu", "accel_body", 3), ("", "position", 3), ("", "quaternion", 4), ("", "velocity", 3),
]  # fmt: skip
NUMBER = r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)"


def option(name):
    return int(sys.argv[sys.argv.index(name) + 1])


def parsed(text):
    """The fields of a state, as strstr, atof and sscanf read them; None without all of them."""
    found = {}
    for section, key, count in KEYS:
        begin = text.find(section)
        at = text.find(key, begin + len(section) + 1) if begin >= 0 else -1
        if at < 0:
            print(f"Failed to find key {section}/{key}", flush=True)
            return None
        rest = text[at + len(key) + 2 :]
        match = re.match(NUMBER if count == 0 else r"\[" + ",".join([NUMBER] * count), rest)
        if match is None:
            print(f"Failed to parse Vector{count}f for {section}/{key}", flush=True)
            return None
        found[key] = [float(x) for x in match.groups()]
    return found


def fly(mood):
    link, receiver = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    receiver.bind(("127.0.0.1", option("--rc-in-port")))
    receiver.setblocking(False)
    link.settimeout(1.0)
    target = ("127.0.0.1", option("--sim-port-out"))
    print(f"Starting SITL: JSON, instance {sys.argv}", flush=True)
    frame, time, held, armed, pulse = 0, 0.0, 0.0, False, 1000
    throttle, yaw = 1000, 1500
    while True:
        packet = struct.pack("<HHI16H", 18458, 1000, frame, *[pulse] * 4, *[0] * 12)
        for _ in range(2 if mood == "impatient" else 1):
            link.sendto(packet, target)
        try:
            state = parsed(link.recv(4096).decode().strip("\n"))
        except TimeoutError:
            continue
        if state is None:
            continue
        frame += 1
        step, time = state["timestamp"][0] - time, state["timestamp"][0]
        if abs(step - 0.001) > 1e-9:
            sys.exit(f"the time went on by {step}")
        sticks = 0
        try:
            while True:
                _, _, throttle, yaw, *_ = struct.unpack("<16H", receiver.recv(64))
                sticks += 1
        except BlockingIOError:
            if sticks != 1:
                sys.exit(f"{sticks} packets of the receiver with frame {frame}")
        held = held + step if yaw > 1900 and throttle < 1100 else 0.0
        if held > 2.0 and not armed and mood == "refuses":
            print("Arm: Gyros not healthy", flush=True)
            held = 0.0
        armed = armed or held > 2.0
        pulse = max(throttle, 1040) if armed else 1000
        if mood == "crashes" and time > 20.1:
            print("Internal error 0x4000", flush=True)
            os.abort()


if __name__ == "__main__":
    fly(os.environ.get("DOUBLE"))

"""A small conforming PX4: start, instances and simulator link as its source (main.cpp, rcS, SimulatorMavlink.cpp) defines them, by pymavlink.

Its scripts are in the folder given as its argument or in etc of its working directory. It connects to port 4560 plus its instance and answers every
HIL_SENSOR once it has booted; its API link sends to 14540 plus the instance. In offboard mode it arms and gives the throttle of hovering
(MPC_THR_HOVER). The variable DOUBLE makes it refuse arming or crash in flight.
"""

import os
import socket
import sys

from pymavlink.dialects.v20 import common

BOOT, ESTIMATE = 40, 200  # samples until its first answer and its first estimate


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def main(mood):
    instance, folder = int(option("-i")), option("-w")
    given = sys.argv[sys.argv.index("-w") + 2 :]
    scripts = given[0] if given else os.path.join(folder, "etc")
    if not os.path.isfile(os.path.join(scripts, "init.d-posix", "rcS")):
        print("ERROR [px4] Error opening startup file, does not exist: etc/init.d-posix/rcS", flush=True)
        return 255
    print(f"INFO  [init] instance {instance}, model {os.environ['PX4_SIM_MODEL']}", flush=True)
    hover = float(os.environ["PX4_PARAM_MPC_THR_HOVER"])
    link = socket.create_connection((os.environ["PX4_SIM_HOSTNAME"], 4560 + instance))
    api = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    api.bind(("127.0.0.1", 14580 + instance))
    api.setblocking(False)
    mav = common.MAVLink(None, srcSystem=1 + instance, srcComponent=1)
    samples, flown, offboard, armed = 0, 0, False, False

    def say(message):
        api.sendto(message.pack(mav), ("127.0.0.1", 14540 + instance))

    while data := link.recv(4096):
        for sensor in mav.parse_buffer(data) or []:
            if sensor.get_type() != "HIL_SENSOR":
                continue
            samples, flown = samples + 1, flown + armed
            if samples < BOOT:
                continue
            if samples >= ESTIMATE and samples % 10 == 0:
                say(common.MAVLink_local_position_ned_message(sensor.time_usec // 1000, 0, 0, 0, 0, 0, 0))
            try:
                while True:
                    for wish in mav.parse_buffer(api.recv(2048)) or []:
                        if wish.get_type() != "COMMAND_LONG" or wish.target_system != 1 + instance:
                            continue
                        if wish.command == common.MAV_CMD_DO_SET_MODE:
                            offboard = wish.param2 == 6
                        elif mood == "refuses":
                            say(common.MAVLink_statustext_message(4, b"Preflight Fail: ekf2 missing data"))
                        else:
                            armed = offboard and wish.param1 == 1
            except BlockingIOError:
                pass
            if mood == "crashes" and flown > 20:
                print("ERROR [commander] segmentation fault", flush=True)
                os.abort()
            controls = [1.0001 * hover if armed else 0.0] * 4 + [0.0] * 12
            answer = common.MAVLink_hil_actuator_controls_message(sensor.time_usec, controls, 1 + 128 * armed, 1)
            link.sendall(answer.pack(mav))
    return 0


if __name__ == "__main__":
    sys.exit(main(os.environ.get("DOUBLE")))

"""Two thousand flights with unknown payload, wind and delay in one native batch: maps of the error, and its quantile with a confidence interval."""

import numpy as np
from _example import folder

import heavytop as ht

out = folder(__doc__)

quad = ht.copters.quadcopter()
over = {
    "payload": ht.uniform(-0.1, 0.3),  # kg; negative: a part of the vehicle is missing
    "wind": ht.uniform(0.0, 5.0),  # m/s
    "delay": ht.choice(0.01 * np.arange(7)),  # s, whole samples
}
result = ht.sweep(quad, over, draws=2000, maneuver="hover", until=3.0, step=0.01)
worst = result.quantile(0.99, "position_error_max", confidence=0.95)
values = (float(worst[name]) for name in ("position_error_max", "position_error_max_low", "position_error_max_high"))
print("99 % of the flights stay within {:.3f} m of the reference (95 % interval {:.3f} to {:.3f} m)".format(*values))
print(f"page: {result.show(out / 'disturbed_flights.html')}")

hover = ht.maneuvers.hover(quad, duration=2.0)
payload = ht.copters.largest_payload(quad, hover, error=0.5, step=0.01)
print(
    f"largest payload with at most 0.5 m of error: {payload:.3f} kg; lifted at all: {ht.copters.lifted_payload(quad):.3f} kg"
)

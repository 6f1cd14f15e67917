"""Draw the Bode plot of docs/control/predictive.md."""

from pathlib import Path

import heavytop as ht
from heavytop import control

FOLDER = Path(__file__).parents[1] / "docs" / "images" / "control"

if __name__ == "__main__":
    cart = ht.library.cart_pole().derive()
    weights = {"x.x": 10, "theta.angle": 20, "x.v_x": 1}
    control.lqr(cart, [0, 0], Q=weights, R=[[0.1]]).loop().bode(FOLDER / "loop_bode.png")

"""Deviation of every formalism from the median, for the systems of the agreement test."""

import runpy
from pathlib import Path

import numpy as np
from common import BLUE, GREY, RED, plt, save

TEST = Path(__file__).parents[3] / "tests" / "mechanics" / "test_formalisms_agree.py"
figure, axis = plt.subplots(figsize=(9, 3.8))
names = []
for k, listed in enumerate(runpy.run_path(str(TEST))["SYSTEMS"]):
    system = listed if callable(listed) else listed.values[0]  # a parametrised case of pytest carries marks
    table = np.stack(list(system().values()))
    middle = np.median(table, axis=0)
    deviation = np.max(np.abs(table - middle), axis=1) / np.max(np.abs(middle))
    axis.semilogx(np.maximum(deviation, 1e-17), np.full(len(deviation), k), "o", color=BLUE, ms=5, alpha=0.6)
    names.append(f"{system.__name__.replace('_', ' ')} ({len(table)} ways)")
axis.axvline(1e-10, color=RED, ls="--", lw=1)
axis.text(1.2e-10, len(names) - 0.6, "limit of the test", color=RED, fontsize=8)
axis.axvline(2.2e-16, color=GREY, ls=":", lw=1)
axis.set(yticks=range(len(names)), yticklabels=names, xlim=(5e-18, 1e-8), xlabel="relative deviation from the median")
axis.invert_yaxis()
save(figure, "agreement")

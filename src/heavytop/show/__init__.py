"""Pictures of systems and runs."""

from heavytop.show.plots import plot_energies as plot_energies
from heavytop.show.plots import plot_invariants as plot_invariants
from heavytop.show.plots import plot_phase as plot_phase
from heavytop.show.plots import plot_run as plot_run
from heavytop.show.plots import plot_signals as plot_signals

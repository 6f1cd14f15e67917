"""Looking at systems, runs and flights: plots, the self-contained report page, figures for papers."""

from heavytop.show.page import write_page as write_page
from heavytop.show.plots import plot_energies as plot_energies
from heavytop.show.plots import plot_invariants as plot_invariants
from heavytop.show.plots import plot_phase as plot_phase
from heavytop.show.plots import plot_run as plot_run
from heavytop.show.plots import plot_signals as plot_signals
from heavytop.show.run_report import report_of as report_of
from heavytop.show.scene import Arrow as Arrow
from heavytop.show.scene import Body as Body
from heavytop.show.scene import Marker as Marker
from heavytop.show.scene import Panel as Panel
from heavytop.show.scene import Report as Report
from heavytop.show.scene import Scene as Scene
from heavytop.show.scene import Spin as Spin
from heavytop.show.scene import Table as Table
from heavytop.show.scene import Trail as Trail

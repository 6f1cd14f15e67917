"""Looking at systems, runs and flights: plots, the self-contained report page, figures for papers."""

from heavytop.show.flight import flight_report, live_flight_report, rows_of, single_rows, write_flight
from heavytop.show.live import Cockpit, need_viser
from heavytop.show.live_page import live_model_report, live_report
from heavytop.show.loop_plots import plot_bode, plot_nyquist, plot_steps
from heavytop.show.page import InlinePage, write_page as write_page
from heavytop.show.plan_report import plot_plan
from heavytop.show.plots import (
    COLORS,
    figure_grid,
    finish_axis,
    plot_energies as plot_energies,
    plot_invariants as plot_invariants,
    plot_phase as plot_phase,
    plot_run as plot_run,
    plot_signals as plot_signals,
    written,
)
from heavytop.show.pose_page import pose_report, write_pose_page
from heavytop.show.run_report import report_of as report_of, report_with_choice
from heavytop.show.scene import (
    Arrow as Arrow,
    Body as Body,
    Marker as Marker,
    Panel as Panel,
    Report as Report,
    Scene as Scene,
    Spin as Spin,
    Table as Table,
    Trail as Trail,
)
from heavytop.show.sweep_page import write_sweep
from heavytop.show.system_cockpit import SystemCockpit

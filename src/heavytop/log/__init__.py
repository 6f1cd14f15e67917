"""Logs of flights and robots: CSV, netCDF, ULog, MCAP and ROS bags into one labelled dataset; runs as MCAP for Foxglove and PlotJuggler."""

from heavytop.log.load import load_log as load_log
from heavytop.log.log_map import LogMap as LogMap, SignalMap as SignalMap
from heavytop.log.mcap_writer import save_mcap as save_mcap
from heavytop.log.plots import plot_log as plot_log

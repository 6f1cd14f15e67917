"""Files: runs as netCDF, recipes, robots as URDF and MJCF, states of other programs."""

from heavytop.io.netcdf import load_run as load_run, save_run as save_run, to_dataframe, to_xarray as to_xarray
from heavytop.io.recipe import load_recipe as load_recipe, save_recipe as save_recipe
from heavytop.io.robot_files import load, save_mjcf, save_urdf
from heavytop.io.tables import save_flight, save_table

"""Files: runs as netCDF, recipes, robots as URDF and MJCF, states of other programs."""

from heavytop.io.netcdf import load_run as load_run
from heavytop.io.netcdf import save_run as save_run
from heavytop.io.netcdf import to_xarray as to_xarray
from heavytop.io.recipe import load_recipe as load_recipe
from heavytop.io.recipe import save_recipe as save_recipe

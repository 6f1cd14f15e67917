"""Files: runs as netCDF."""

from heavytop._gate import gate as _gate
from heavytop.io.netcdf import load as load
from heavytop.io.netcdf import save as save
from heavytop.io.netcdf import to_xarray as to_xarray
from heavytop.io.recipe import load_recipe as load_recipe
from heavytop.io.recipe import save_recipe as save_recipe

_gate(__name__)

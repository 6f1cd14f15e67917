"""Files: runs as netCDF."""

from heavytop.io.netcdf import load as load
from heavytop.io.netcdf import save as save
from heavytop.io.netcdf import to_xarray as to_xarray

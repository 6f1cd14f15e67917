"""Models, laws and closed loops as FMUs (FMI 2.0 and 3.0) for other simulators, and FMUs of others as inputs of a run."""

from heavytop.fmi.export import export_fmu as export_fmu
from heavytop.fmi.imported import LoadedFMU as LoadedFMU, load_fmu as load_fmu

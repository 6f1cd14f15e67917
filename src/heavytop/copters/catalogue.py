"""stub"""
from heavytop.copters.vehicles import *
def load(name): 
    import heavytop.copters as c
    return getattr(c, name)()
def names(): return ("quadcopter",)

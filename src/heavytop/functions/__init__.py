"""Values with keys, and the store that finds by key what is expensive to make."""

from heavytop.functions.pickling import BoundHere, Portable as Portable, header_of, pack, unpack
from heavytop.functions.stable_key import stable_key as stable_key
from heavytop.functions.value import (
    MECHANISM,
    PACKAGES,
    KeyedStore as KeyedStore,
    Value as Value,
    frozen as frozen,
    instance_key as instance_key,
    is_local as is_local,
    key as key,
    recipe as recipe,
    store as store,
)

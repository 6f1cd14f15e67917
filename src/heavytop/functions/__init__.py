"""Values with keys, and the store that finds by key what is expensive to make."""

from heavytop.functions.pickling import Portable as Portable
from heavytop.functions.stable_key import stable_key as stable_key
from heavytop.functions.store import KeyedStore as KeyedStore
from heavytop.functions.store import store as store
from heavytop.functions.value import Value as Value
from heavytop.functions.value import frozen as frozen
from heavytop.functions.value import instance_key as instance_key
from heavytop.functions.value import is_local as is_local
from heavytop.functions.value import key as key
from heavytop.functions.value import recipe as recipe

"""Looking at motion: scenes of bodies, the self-contained report page, figures for papers."""

from heavytop.show.page import write_page as write_page
from heavytop.show.scene import Arrow as Arrow
from heavytop.show.scene import Body as Body
from heavytop.show.scene import Marker as Marker
from heavytop.show.scene import Panel as Panel
from heavytop.show.scene import Report as Report
from heavytop.show.scene import Scene as Scene
from heavytop.show.scene import Spin as Spin
from heavytop.show.scene import Table as Table
from heavytop.show.scene import Trail as Trail

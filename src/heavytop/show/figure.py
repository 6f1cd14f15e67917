"""A matplotlib figure that notebooks draw, whether or not pyplot was imported. Import it where a figure is made."""

from __future__ import annotations

from io import BytesIO

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class RunFigure(Figure):
    """A figure without a window and without global state.

    Examples
    --------
    >>> figure = RunFigure(3.0, 2.0)
    >>> figure._repr_png_()[1:4]
    b'PNG'
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        image = BytesIO()
        self.savefig(image, dpi=90, format="png")
        return image.getvalue()

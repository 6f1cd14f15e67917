"""References: desired motions, flatness, virtual vehicles, time allocation, governor."""

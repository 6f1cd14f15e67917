"""A flight controller as C: the tracking law of a quadcopter, exported, and its cost per call."""

from _example import figure, finish, folder

import heavytop as ht

out = folder(__doc__)

quad = ht.copters.quadcopter()
counts = {}
for label, law in (
    ("particle", quad.law("particle", limits=False)),
    ("energy", quad.law("energy", limits=False)),
    ("energy, limited", quad.law("energy")),
):
    files = law.export_c(out / f"controller_{law.kind}{'_limited' if 'limited' in label else ''}")
    source = max(
        (path for path in files if path.suffix == ".c" and "test" not in path.name),
        key=lambda path: path.stat().st_size,
    )
    text = source.read_text(encoding="utf-8")
    counts[label] = {symbol: text.count(f" {symbol} ") for symbol in "+-*/"}
    print(f"{label:16} {len(files)} files in {source.parent}, {source.name}: {len(text.splitlines())} lines")

fig, axes = figure(figsize=(6.5, 4))
bottom = [0] * len(counts)
for symbol, color in zip("+-*/", ("#0072b2", "#56b4e9", "#d55e00", "#cc79a7"), strict=True):
    values = [count[symbol] for count in counts.values()]
    axes.bar(list(counts), values, bottom=bottom, color=color, label=symbol)
    bottom = [b + v for b, v in zip(bottom, values, strict=True)]
axes.set(ylabel="operators in the C source", title="Tracking laws of a quadcopter as C99")
axes.legend()
finish(fig, out / "export_controller.png")

"""The description of a system as immutable data: graph of frames, shapes, moments, inputs, names."""

"""The parts of the shape-constrained EM: histogram, rectangles of evidence, mixture weights."""

__all__: list[str] = []

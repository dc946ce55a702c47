"""How does a source change? Estimates from incomplete evidence; each question has a module.

`rates` one constant rate for each source, `pooling` with the collection as prior, `intervals` the
whole distribution of times between updates, `drift`, `local` and `season` rates that vary in time,
`population` how rates are distributed, `design` how many visits are needed, `online` a visit at a
time. `observant.estimate_rates` is where most people begin.
"""

__all__: list[str] = []

"""The figures of a report, one module each.

A module measures, draws for papers (`draw`, Matplotlib), plots for the page (`plot`, Plotly), and ends in one value
`FIGURE` with its name, position, section, title and caption. `reports/registry.py` finds every module of this package,
so a new figure is one new file here; `delay.py` is a short example. What several figures share is in
`reports/measures` and `reports/drawing`, which makes figures that differ in little but their data: those of accuracy
and error, and those of time and energy per floor.
"""

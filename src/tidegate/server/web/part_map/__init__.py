"""The map of parts.

`scale.py` has axes, `svg.py` draws, `chart.py` adds the choice of axes and the legend, `view.py` builds the HTML around it.
"""

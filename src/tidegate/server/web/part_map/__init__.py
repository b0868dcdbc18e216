"""The map of parts: `scale.py` has axes, `svg.py` draws, `view.py` builds the HTML around it."""

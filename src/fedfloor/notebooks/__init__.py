"""How results look in a notebook: data frames, small tables with curves, and bars that show progress."""

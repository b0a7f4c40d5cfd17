"""What figures share: the contract of a figure, and drawing with Matplotlib (for papers) and Plotly (for the page)."""

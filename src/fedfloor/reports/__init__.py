"""Run logs -> tables, figures and one page to look at."""

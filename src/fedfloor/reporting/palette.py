"""Colours that colour-blind readers tell apart, one home for pictures and page."""

__all__ = ["OKABE_ITO"]

#: Okabe and Ito's, without black and yellow: each vanishes on one background
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

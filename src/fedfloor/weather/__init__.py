"""What nobody decides: radio gains, interference and energy, drawn or recorded."""

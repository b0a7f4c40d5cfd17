"""The study of docs/reproduce.md: many training runs, one CSV line each, and the tables that follow from them."""

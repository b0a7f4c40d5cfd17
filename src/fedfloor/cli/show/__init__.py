"""What commands print: tables for people, JSON for programs, and progress."""

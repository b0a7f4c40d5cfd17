"""What happens after every round, one file each."""

"""A plant of real machines: who they are, and how they talk to each other. Needs the extra 'deploy'."""

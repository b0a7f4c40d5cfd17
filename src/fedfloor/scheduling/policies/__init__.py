"""The policies, one file each: the name of the module is that of the policy, its first public name the class."""

"""What tests of kills and outages share."""

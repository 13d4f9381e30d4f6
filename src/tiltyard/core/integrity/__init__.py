"""What votes tell about their voters: drift, and voters unlike honest ones."""

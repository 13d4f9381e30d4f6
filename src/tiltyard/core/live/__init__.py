"""Live battles: the pace of two streams, and what people type."""

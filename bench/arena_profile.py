"""A child of `tiltyard serve` that writes where its CPU time went to the file that ``BENCH_PROFILE`` names."""

from __future__ import annotations

import cProfile
import os
import time

from tiltyard.web.child_process import main

if __name__ == "__main__":
    profile = cProfile.Profile(time.process_time)
    try:
        profile.runcall(main)
    finally:
        profile.dump_stats(os.environ["BENCH_PROFILE"])

"""A rater that writes checkpoints often. ``python rating_process.py URL EVENTS``; it ends with whoever started it."""

import logging
import os
import signal
import sys
import threading

from tiltyard.arena.rating.rater_process import RaterPace, RaterProcess

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
    rater_process = RaterProcess(sys.argv[1], pace=RaterPace(step=500, checkpoint_events=int(sys.argv[2])))
    print("ready", flush=True)
    rater_process.run(stop)

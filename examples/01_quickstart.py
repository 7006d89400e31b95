"""From arrays to a saved detector."""

import tempfile
from pathlib import Path

from dfstrans import Diagnoser
from dfstrans.data.synthetic import planted_episodes

episodes = planted_episodes(n_normal=60, n_anomalous=30, n_sensors=4, n_timepoints=100, seed=0)
print(episodes)

train, validation, test = episodes.split(seed=0)
detector = Diagnoser(segment_length=20, epochs=3, seed=0).fit(train, validation=validation)
print(detector.evaluate(test))

with tempfile.TemporaryDirectory() as folder:
    detector.save(Path(folder) / "model")
    again = Diagnoser.load(Path(folder) / "model")
    print(again.predict_proba(test)[:5, 1])

#!/usr/bin/env sh
# From a CSV file to predictions on the command line; run it in an environment where dfstrans is installed.
set -eu
folder=$(mktemp -d)
python -c "
import pandas as pd
from dfstrans.data.synthetic import planted_episodes
episodes = planted_episodes(60, 30, n_sensors=4, n_timepoints=100)
pd.concat(
    pd.DataFrame({'episode_id': e.id, 'time': range(100), **dict(zip('abcd', e.values)), 'label': e.label}) for e in episodes
).to_csv('$folder/recordings.csv', index=False)
"
dfstrans data check "$folder/recordings.csv"
dfstrans train "$folder/recordings.csv" --out "$folder/model" --segment-length 20 --epochs 3
dfstrans evaluate "$folder/model" "$folder/recordings.csv" --part test
dfstrans predict "$folder/model" "$folder/recordings.csv" | head -n 5
rm -r "$folder"

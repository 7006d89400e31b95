#!/usr/bin/env sh
# Send a recording to a running service and look at the cases: examples/service/client.sh ADDRESS FILE.csv MACHINE
set -eu
address=$1 file=$2 machine=$3
curl --fail-with-body --silent --show-error --data-binary "@$file" -H 'Content-Type: text/csv' \
  "$address/api/v1/recordings?asset=$machine&name=$(basename "$file")"
echo
curl --fail-with-body --silent --show-error "$address/api/v1/cases?status=open&limit=5"
echo

"""Send recordings to a running service, and confirm the cases they open: client.py ADDRESS FILE.csv… --asset MACHINE.

Needs nothing but Python. A token, if the service requires one, is read from DFSTRANS_TOKEN.
"""

import argparse
import json
import os
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen


def call(address, path, content=None, kind="application/json", **query):
    headers = {"Content-Type": kind}
    if "DFSTRANS_TOKEN" in os.environ:
        headers["Authorization"] = f"Bearer {os.environ['DFSTRANS_TOKEN']}"
    try:
        with urlopen(Request(f"{address}/api/v1/{path}?{urlencode(query)}", content, headers), timeout=120) as answer:
            return json.load(answer)
    except HTTPError as error:
        raise SystemExit(json.load(error)["detail"]) from None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--asset", required=True)
    parser.add_argument("--confirm", metavar="FAULT_CODE", help="confirm the open case of the machine with this code")
    given = parser.parse_args()
    for file in given.files:  # a file may be sent again: the service stores each recording once
        answer = call(given.address, "recordings", file.read_bytes(), "text/csv", asset=given.asset, name=file.name)
        for one in answer["recordings"]:
            print(one["episode"], f"{one['probability']:.3f}" if one["probability"] is not None else "not scored")
            if one["diagnosis"]:
                print("  ", one["diagnosis"]["summary"])
    cases = call(given.address, "cases", asset=given.asset)["items"]
    for case in cases:
        print(f"case {case['id']}: {case['evidence']} recordings, most unusual sensor {case['top_sensor']}")
        if given.confirm:
            verdict = {"label": "anomaly", "fault_code": given.confirm}
            call(given.address, f"cases/{case['id']}/feedback", json.dumps(verdict).encode())
            print("   confirmed and closed")


if __name__ == "__main__":
    main()

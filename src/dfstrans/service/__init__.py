"""The service: recordings arrive over HTTP, detections become cases, and confirmed cases become better models."""

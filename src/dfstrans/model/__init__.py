"""The network: encoding, embedding, attention, head."""

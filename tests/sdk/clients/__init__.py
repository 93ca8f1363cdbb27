"""The official SDKs, each behind the same few words."""

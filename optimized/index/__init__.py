"""The prefix index: what an engine adopts. It knows tokens and opaque cells; no torch, no clock, no pools."""

"""Caches with one legal oddity each: the kit must pass every one."""

"""Caches with one illegal edit each: the kit must catch every one."""

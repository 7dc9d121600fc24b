"""Runs in vLLM's environment: loads plug-ins with vLLM's own loader, and prints whether its cache is then watched."""

import importlib.util

from milepost.conformance.adapters.vllm_loader import find_engine, load
from milepost_record.guard import MARK

folder = find_engine() / "plugins"
load()
spec = importlib.util.spec_from_file_location("vllm_plugins", folder / "__init__.py")
assert spec is not None
assert spec.loader is not None
plugins = importlib.util.module_from_spec(spec)
spec.loader.exec_module(plugins)
plugins.load_general_plugins()

from vllm.v1.core.kv_cache_manager import KVCacheManager  # noqa: E402 - what the plug-in has changed is wanted

print("watched" if MARK in vars(KVCacheManager.allocate_slots) else "left alone")

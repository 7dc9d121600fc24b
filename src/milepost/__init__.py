"""Milepost: an executable specification of hybrid prefix caches, and a kit that judges real ones."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__: str = version("milepost")
except PackageNotFoundError:  # sources on the path, nothing installed
    __version__ = "0+unknown"

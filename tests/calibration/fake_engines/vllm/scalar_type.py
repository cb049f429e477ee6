from types import SimpleNamespace

scalar_types = SimpleNamespace(uint4b8="uint4b8")

"""vLLM 0.33: the functions that the calibration calls."""

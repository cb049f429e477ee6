"""``python -m specadvisor``."""

from specadvisor.cli.app import main

main()

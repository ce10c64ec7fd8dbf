"""``python -m streamgp``: the command line."""

from streamgp.cli import main

raise SystemExit(main())

"""Studies of the paper, one folder each: settings, plan, unit, report. The harness finds them by name."""

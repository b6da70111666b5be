"""What a run is: settings, recipes, their checks. Imports no torch."""

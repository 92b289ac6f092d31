"""The house keeps its own rules: the map, the doors, the layers, the wheel, and what no file may do."""

"""Files of graphs: how they are read, checked and written."""

"""The operations that layers call: their table, the plain versions that define them, and faster versions."""

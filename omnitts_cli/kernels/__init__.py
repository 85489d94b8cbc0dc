"""Operations: the table layers call, its plain truth, and faster twins."""

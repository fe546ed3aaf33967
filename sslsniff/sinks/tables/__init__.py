"""How does an exchange look as the row of a table? Parquet files, in folders by date and hour."""

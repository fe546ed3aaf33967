"""Parquet files, in folders by date and hour: --parquet."""

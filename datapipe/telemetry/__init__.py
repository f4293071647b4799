"""What running apps leave behind: rolling Parquet files, and the tables of time windows that Spark makes of them."""

"""The command line as a program for spark-submit: ``spark-submit --master … deploy/submit.py ingest ferret …``."""

from service.cli import main

if __name__ == "__main__":
    main()

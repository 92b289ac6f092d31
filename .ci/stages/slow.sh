# The slow tests, which the README's command leaves out; those that need Spark are in the stage spark.
source "$(dirname "$0")/../lib.sh"
cd "$WORK/clone"
bounded 1200 .venv/bin/python -m pytest -q -m 'slow and not spark'
